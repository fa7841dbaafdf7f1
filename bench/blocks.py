"""Measures how long the event loop of a real gateway is blocked by what is known to be expensive.

    python -m bench.blocks [--calls] [SCENE ...]

Prints the longest block of each scene in milliseconds: as far as the process used the CPU in it,
the CPU time of the loop's own thread, and by the clock, which also counts what a busy machine did
instead; then the number of blocks over 50 ms of the first kind, which is the aim. `--calls` also
prints what ran meanwhile.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.support.chat import says
from tests.support.gateway import KEY, Gateway
from tests.support.scripted_upstream import ScriptedUpstream, reply
from tests.support.wire import chunk, data

AIM = 0.050
_TIMEOUT = 60.0
_SETTLE = 2.5
"""Seconds after a scene, in which rows are written and an edit comes into effect."""
_MARKS = "sk- Bearer eyJ AKIA ghp_ xoxb- -----BEGIN \\u0073\\u006b- sk-ant-api03-" + "a1" * 20 + " "


class Bench:
    def __init__(self, folder: Path) -> None:
        self.blocks = folder / "blocks"
        self.upstream = ScriptedUpstream()
        self.gateway = Gateway(
            folder,
            DJANGO_SETTINGS_MODULE="bench.watched_settings",
            BLOCKS_FILE=str(self.blocks),
            OPENROUTER_API_KEY="x" * 20,
            OPENROUTER_BASE_URL=self.upstream.url,
            ATHENA_ANTHROPIC_API_KEY="",
            ATHENA_WORKERS="1",
        ).start()
        self.client = httpx.Client(
            base_url=self.gateway.url,
            headers={"x-api-key": KEY},
            timeout=_TIMEOUT,
            trust_env=False,
        )

    def ask(self, text: str, answer: str = "Hi", **fields: Any) -> None:
        self.upstream.script("test/blocks", says(answer))
        self.send({"messages": [{"role": "user", "content": text}], **fields})

    def send(self, body: dict[str, Any], path: str = "/v1/messages") -> None:
        body = {"model": "test/blocks", "max_tokens": 100, "stream": True, **body}
        self.client.post(path, json=body).raise_for_status()


def marks(bench: Bench) -> None:
    """A kept transcript of 4 MB of text that resembles secrets, in a request and an answer"""
    bench.gateway.edit(
        "from proxy.models import GatewaySettings\n"
        "settings = GatewaySettings.objects.get()\n"
        "settings.sample_calls = settings.sample_others = 1.0\n"
        "settings.save()\n"
    )
    text = _MARKS * (2_000_000 // len(_MARKS))
    bench.ask(text, "fine")
    pieces = [text[at : at + 4000] for at in range(0, len(text), 4000)]
    answer = reply(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"))
    bench.upstream.script("test/blocks", answer)
    bench.send({"messages": [{"role": "user", "content": text}]})
    failing = [
        *map(chunk, ({"content": piece} for piece in pieces)),
        data({"error": {"message": "x"}}),
    ]
    bench.upstream.script("test/blocks", reply(*failing))
    bench.send({"messages": [{"role": "user", "content": text}]})


def many_tools(bench: Bench) -> None:
    """Requests with 1,000 tools, new ones each time, in both dialects"""
    for number in range(3):
        tools = [_tool(f"tool_{number}_{at}") for at in range(1000)]
        bench.ask("Hello", tools=tools)
        functions = [
            {"name": t["name"], "description": t["description"], "parameters": t["input_schema"]}
            for t in tools
        ]
        bench.send(
            {
                "messages": [{"role": "user", "content": f"Hello {number}"}],
                "tools": [{"type": "function", "function": f} for f in functions],
            },
            "/v1/chat/completions",
        )


def _tool(name: str) -> dict[str, Any]:
    field = {"type": "string", "description": f"What {name} reads. " * 5}
    properties = {f"field_{at}": field for at in range(10)}
    schema = {"type": "object", "properties": properties, "required": ["field_1"]}
    return {"name": name, "description": f"The tool {name}. " * 20, "input_schema": schema}


def large_field(bench: Bench) -> None:
    """Requests with 10 MB in an unknown field: a text, and many small values"""
    bench.upstream.script("test/blocks", says("Hi"))
    message = {"messages": [{"role": "user", "content": "Hello"}]}
    for path in ("/v1/messages", "/v1/chat/completions"):
        bench.send({**message, "unknown": "x" * 10_000_000}, path)
        bench.send({**message, "unknown": "é\n" * 2_000_000}, path)
        bench.send({**message, "unknown": [{"a": "b" * 200}] * 45_000}, path)


def many_routes(bench: Bench) -> None:
    """10,000 routes with wildcards and 10,000 overrides: loaded, used by new names, and edited"""
    bench.gateway.edit(
        "from proxy.models import ModelRoute, Upstream, GatewaySettings, FormatOverride\n"
        "upstream = Upstream.objects.get(name='openrouter')\n"
        "ModelRoute.objects.bulk_create("
        "ModelRoute(pattern=f'*w{n}?-[ab]*' if n % 2 else f'w{n}*x*',"
        " upstream=upstream, upstream_model=f'test/w{n}', listed_as=f'w{n}-ax-x')"
        " for n in range(10_000))\n"
        "FormatOverride.objects.bulk_create(FormatOverride(pattern=f'*o{n}[xy]*', format='kimi')"
        " for n in range(10_000))\n"
        "GatewaySettings.objects.get().save()\n"
    )
    for number in range(5):
        bench.upstream.script(f"new/{number}", says("Hi"))
        bench.send({"model": f"new/{number}", "messages": [{"role": "user", "content": "Hello"}]})
    for _ in range(2):
        bench.gateway.edit(
            "from proxy.models import GatewaySettings\nGatewaySettings.objects.get().save()\n"
        )
        bench.ask("Hello")


def model_list(bench: Bench) -> None:
    """The model list and a new name, with the routes of the scene before"""
    bench.client.get("/v1/models", params={"limit": 1000}).raise_for_status()
    bench.client.get("/v1/models/test/blocks").raise_for_status()


SCENES: dict[str, Callable[[Bench], None]] = {
    "idle": lambda bench: time.sleep(_SETTLE),
    "marks": marks,
    "tools": many_tools,
    "field": large_field,
    "routes": many_routes,
    "models": model_list,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=", ".join(SCENES))
    parser.add_argument("--calls", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="athena-blocks-") as folder:
        bench = Bench(Path(folder))
        try:
            time.sleep(_SETTLE)  # after the start
            sys.stdout.write("scene      process    loop   clock over 50\n")
            for name in options.scenes or SCENES:
                began = time.clock_gettime(time.CLOCK_MONOTONIC)
                SCENES[name](bench)
                time.sleep(_SETTLE)
                _print(name, bench.blocks, began, with_calls=options.calls)
        finally:
            bench.gateway.stop()


def _print(name: str, path: Path, began: float, *, with_calls: bool) -> None:
    lines = path.read_text().splitlines() if path.exists() else []
    blocks = [block for block in map(json.loads, lines) if block["ended"] > began]
    for block in blocks:
        block["own"] = min(block["seconds"], block["cpu"])
    blocks.sort(key=lambda block: float(block["own"]), reverse=True)
    columns = [f"{_longest(blocks, of):8.0f}" for of in ("own", "loop_cpu", "seconds")]
    over = sum(block["own"] > AIM for block in blocks)
    sys.stdout.write(f"{name:8}{''.join(columns)}{over:8}\n")
    for block in blocks[: 6 if with_calls else 0]:
        times = ", ".join(
            f"{of} {block[of] * 1000:.0f} ms" for of in ("own", "loop_cpu", "seconds")
        )
        calls = block["calls"].replace("\n", "\n    ")
        sys.stdout.write(f"  {times}\n    {calls}\n")
    sys.stdout.flush()


def _longest(blocks: list[dict[str, Any]], of: str) -> float:
    """Milliseconds."""
    return max((float(block[of]) for block in blocks), default=0.0) * 1000


if __name__ == "__main__":
    main()
