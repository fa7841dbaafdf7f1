"""An upstream that answers or fails at random, and records its requests."""

import asyncio
from random import Random

from tests.support.scripted_upstream import (
    Close,
    Pause,
    Recorded,
    Reset,
    Script,
    ScriptedUpstream,
    Step,
    reply,
    whole,
)
from tests.support.wire import chunk

_KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0"
    '<|tool_call_argument_begin|>{"harbor": "Oban"}<|tool_call_end|><|tool_calls_section_end|>'
)
_END = chunk({}, "stop") + b"data: [DONE]\n\n"


def _text(random: Random) -> list[Step]:
    """Some seconds of text."""
    parts: list[Step] = []
    for number in range(random.randint(3, 12)):
        parts.append(chunk({"content": f"part {number} " + "of the tide " * random.randint(1, 20)}))
        parts.append(Pause(random.uniform(0.05, 0.6)))
    return parts


def _call(random: Random) -> list[Step]:
    """A call in the format of Kimi, cut at random places."""
    parts: list[Step] = [chunk({"content": "Let me look. "})]
    at = 0
    while at < len(_KIMI):
        size = random.randint(1, 30)
        parts += [chunk({"content": _KIMI[at : at + size]}), Pause(0.05)]
        at += size
    return parts


def _answer(kind: str, random: Random) -> list[Step]:
    text = _text(random)
    start = text[: random.randrange(1, len(text))]
    match kind:
        case "call":
            return reply(*_call(random), _END)
        case "cut call":
            return reply(*_call(random)[: random.randint(4, 10)], _END)
        case "reset":
            return reply(*start, Reset, ends=False)
        case "stall":
            return reply(*start, Pause(8), ends=False)
        case "silence":
            return [Pause(8)]
        case "comments":
            alive: list[Step] = [b": alive\n\n", Pause(0.3)]
            return reply(*start, *alive * 20, ends=False)
        case "truncation":
            return [*reply(*start, ends=False), Close]
        case "no finish reason":
            return reply(*start)
        case "bad JSON":
            return reply(*start, b"data: {oops\n\n", _END)
        case "bad bytes":
            return reply(*start, b'data: {"choices": "\xff\xfe"}\n\n', _END)
        case "giant line":
            return reply(*start, b"data: ", *[b"x" * 65536] * 20, ends=False)
        case "error chunk":
            return reply(*start, b'data: {"error":{"message":"overloaded","code":503}}\n\n')
        case "error page":
            status = random.choice([400, 401, 403, 404, 429, 500, 502, 503, 529])
            return whole(b"<html><h1>An error</h1></html>", status=status)
        case "error":
            status = random.choice([400, 401, 404, 422, 429, 500, 503, 529])
            return whole({"error": {"message": "no", "code": status}}, status=status)
        case "nonsense":
            return [bytes(random.randbytes(random.randint(1, 300))), Close]
        case "closed at once":
            return [Close] if random.random() < 0.5 else [Reset]
        case "drip":
            data = chunk({"content": "slowly"}) + _END
            drops = [data[at : at + 9] for at in range(0, len(data), 9)]
            return reply(*(step for drop in drops for step in (drop, Pause(0.02))))
        case _:
            return reply(*text, _END)


FAULTS = [
    "call", "cut call", "reset", "stall", "silence", "comments", "truncation",
    "no finish reason", "bad JSON", "bad bytes", "giant line", "error chunk", "error page",
    "error", "nonsense", "closed at once", "drip",
]  # fmt: skip
_SHARE = 0.5
"""Share of valid answers."""


class _Scripts(dict[str, Script]):
    """A script for every model, made when it is first requested."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.models: list[str] = []
        self.kinds: dict[str, int] = {}

    def __missing__(self, model: str) -> Script:
        if self.random.random() < _SHARE or model.startswith("fine"):
            kind = "fine"
        else:
            kind = self.random.choice(FAULTS)
        self.models.append(model)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        steps = _answer(kind, self.random)
        if model.startswith("fine"):
            steps = reply(chunk({"content": "Good morning"}), _END)
        return Script([steps])


class FaultyUpstream(ScriptedUpstream):
    def __init__(self, seed: int) -> None:
        self.scripts = _Scripts(Random(seed))
        super().__init__()
        self._scripts = self.scripts

    async def _watch(self, reader: asyncio.StreamReader, recorded: Recorded) -> None:
        """Do nothing: no test of the soak needs the time at which a client left."""
