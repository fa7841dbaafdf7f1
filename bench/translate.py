"""Measures translation: CPU time per chunk and per request, and memory per stream.

    python -m bench.translate

Values are the lowest CPU time of several rounds. Compare within one run, in relation to the row "a
bare JSON decode", because milliseconds vary with the machine.
"""

import json
import platform
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from time import process_time

import msgspec

from formats import (
    DIALECTS,
    FORMATS,
    Identity,
    Limits,
    Target,
    Toolbox,
    build_pipeline,
    detect_format,
    estimate_tokens,
)
from formats.native.rescue import CallRescue

ROUNDS = 7
KIMI_SECTION = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0"
    '<|tool_call_argument_begin|>{"harbor": "Moss", "days": 3}<|tool_call_end|>'
    "<|tool_calls_section_end|>"
)


def chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    payload = {
        "id": "chatcmpl-0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "moonshotai/kimi-k2.5",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
    }
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def answer(*deltas: Mapping[str, object]) -> list[bytes]:
    chunks = [chunk({"role": "assistant", "content": ""}), *map(chunk, deltas)]
    return [*chunks, chunk({}, "stop"), b"data: [DONE]\n\n"]


def argument_deltas(count: int) -> list[Mapping[str, object]]:
    """A structured call with one argument in `count` pieces of ten characters."""
    pieces = ['{"content": "', *["ten chars " for _ in range(count - 2)], '"}']
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "Write"}}
    later = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    return [{"tool_calls": [entry]} for entry in (first, *later)]


def request(size: int = 62_000) -> bytes:
    """A turn of Claude Code: 20 tools, a long system prompt and 11 messages."""
    parameters = {f"parameter_{n}": {"type": "string", "description": "d" * 100} for n in range(7)}
    schema = {"type": "object", "properties": parameters, "required": ["parameter_0"]}
    history: list[dict[str, object]] = [{"role": "user", "content": "Please fix the tests."}]
    for turn in range(5):
        call = {
            "type": "tool_use",
            "id": f"toolu_{turn}",
            "name": "Tool1",
            "input": {"a": "b" * 900},
        }
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": "line\n" * 500}
        history.append({"role": "assistant", "content": [{"type": "text", "text": "Ok."}, call]})
        history.append({"role": "user", "content": [result]})
    body = {
        "model": "kimi-k2.5",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "s" * 6500, "cache_control": {"type": "ephemeral"}}]
        * 2,
        "tools": [
            {"name": f"Tool{n}", "description": "d" * 300, "input_schema": schema}
            for n in range(20)
        ],
        "messages": history,
    }
    encoded = json.dumps(body).encode()
    return (
        encoded
        if len(encoded) >= size
        else json.dumps(body | {"metadata": {"user_id": "u" * (size - len(encoded))}}).encode()
    )


def best(work: Callable[[], object], times: int) -> float:
    """The lowest CPU time of one call, in seconds."""
    times_per_call = []
    for _ in range(ROUNDS):
        start = process_time()
        for _ in range(times):
            work()
        times_per_call.append((process_time() - start) / times)
    return min(times_per_call)


def relay(reads: list[bytes], format_name: str, client: str = "anthropic") -> bytes:
    pipeline = build_pipeline(
        client=client, upstream="openai", format_name=format_name, identity=Identity(token="t")
    )
    return b"".join([pipeline.feed(data) for data in reads]) + pipeline.close()


def render(body: bytes) -> bytes:
    conversation = DIALECTS["anthropic"].parse(body)
    target = Target(native_ids="kimi", reasoning_field="reasoning_content")
    return DIALECTS["openai"].render(conversation, target).body


def peak_of_a_stream(chunks: list[bytes], format_name: str) -> int:
    """Peak of memory while a stream is relayed chunk by chunk."""
    relay(chunks, format_name)
    tracemalloc.start()
    pipeline = build_pipeline(
        client="anthropic",
        upstream="openai",
        format_name=format_name,
        identity=Identity(token="t"),
        toolbox=Toolbox(),
    )
    for data in chunks:
        pipeline.feed(data)
    pipeline.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def row(name: str, value: float, unit: str, target: str = "") -> None:
    print(f"{name:<58}{value:>10.2f} {unit:<12}{target}")


def main() -> None:
    words = answer(*({"content": f" word{n % 10}"} for n in range(2000)))
    body = request()
    section = answer(*({"content": piece} for piece in KIMI_SECTION.split(" ")))
    writes = answer(*argument_deltas(4000))
    print(f"Python {platform.python_version()}, msgspec {msgspec.__version__}\n")
    row("detection", best(lambda: detect_format("moonshotai/kimi-k2.5"), 20_000) * 1e6, "µs")
    payloads = [data[6:-2] for data in words[:-1]]
    bare = best(lambda: list(map(msgspec.json.decode, payloads)), 5) / len(words)
    row("a bare JSON decode, for comparison", bare * 1e6, "µs/chunk")
    for name in FORMATS:
        bulk = best(partial(relay, [b"".join(words)], name), 5) / len(words)
        row(f"plain text, {name}, in bulk", bulk * 1e6, "µs/chunk", "target 3.5")
    apart = best(lambda: relay(words, "kimi"), 5) / len(words)
    row("plain text, kimi, a read each", apart * 1e6, "µs/chunk")
    kept = best(lambda: relay(words, "kimi", "openai"), 5) / len(words)
    row("the same, passed through", kept * 1e6, "µs/chunk", "not above the last")
    assert relay(words, "kimi", "openai") == b"".join(words)
    native = FORMATS["kimi"]
    assert native
    events = DIALECTS["openai"].decoder(Limits()).feed(b"".join(section))
    alone = best(lambda: CallRescue(native, Toolbox()).feed(events), 200)
    row("a Kimi section, only the transform", alone * 1e6, "µs", "target 100")
    row(
        "an answer with that section, from bytes to bytes",
        best(lambda: relay([b"".join(section)], "kimi"), 200) * 1e6,
        "µs",
    )
    row(
        "40 KB of arguments in 4,000 deltas, in bulk",
        best(lambda: relay([b"".join(writes)], "kimi"), 3) * 1e3,
        "ms",
    )
    row("the same, a read each", best(lambda: relay(writes, "kimi"), 3) * 1e3, "ms")
    row(
        f"a request of {len(body) // 1000} KB, parsed and rendered",
        best(lambda: render(body), 100) * 1e3,
        "ms",
        "target 0.4",
    )
    conversation = DIALECTS["anthropic"].parse(body)
    row(
        "estimating its input tokens",
        best(lambda: estimate_tokens(conversation), 2000) * 1e6,
        "µs",
        "target 100",
    )
    row(
        "peak memory of a stream of 2,000 chunks",
        peak_of_a_stream(words, "kimi") / 1e3,
        "KB",
        "target 100",
    )
    row(
        "peak memory of a stream with 40 KB of arguments",
        peak_of_a_stream(writes, "kimi") / 1e3,
        "KB",
        "target 100",
    )


if __name__ == "__main__":
    main()
