"""Seeds of the fuzzers: the fixtures, and inputs that failed before."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from formats import (
    DIALECTS,
    FORMATS,
    Event,
    MessageEnd,
    MessageStart,
    ReasoningDelta,
    ReasoningSignature,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from tests.fuzz.targets import TARGETS
from tests.support.definitions import ACCEPTED
from tests.support.native_vectors import vectors_of
from tests.support.operator_formats import OPERATOR_FORMATS
from tests.support.wire import OPTIONS, text_from

FIXTURES = Path(__file__).parent.parent / "fixtures"
FAILING_INPUTS = FIXTURES / "fuzz"
"""Inputs that failed before: a folder per target, a file per input."""

_TOOL = {"name": "get_tide", "description": "d", "input_schema": {"type": "object"}}
_FUNCTION = {"name": "get_tide", "parameters": {"type": "object"}}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "get_tide", "arguments": "{}"}}
_REQUESTS: list[dict[str, Any]] = [
    {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]},
    {
        "model": "m",
        "max_tokens": 5,
        "stream": True,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "tools": [_TOOL],
        "tool_choice": {"type": "tool", "name": "get_tide"},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "tool_use", "id": "toolu_1", "name": "get_tide", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "low"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                    },
                ],
            },
        ],
    },
    {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": _FUNCTION}],
        "tool_choice": "auto",
        "reasoning_effort": "low",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": None, "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "low"},
            {"role": "developer", "content": "d"},
        ],
    },
    {
        "model": "m",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c", "name": "get_tide", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "low"},
        ],
        "tools": [{"type": "function", **_FUNCTION}, {"type": "custom", "name": "patch"}],
    },
]
_MESSAGE: list[Event] = [
    MessageStart("msg_1", "m", Usage(input=1)),
    ReasoningDelta("Hm."),
    ReasoningSignature("s"),
    TextDelta("Let me look."),
    ToolCallStart("toolu_1", "get_tide"),
    ToolCallDelta('{"a": 1,'),
    ToolCallDelta('"b": "\u00e9"}'),
    ToolCallEnd(),
    ToolCallStart("toolu_2", "ping"),
    ToolCallDelta("{}"),
    ToolCallEnd(),
    MessageEnd(StopReason.TOOL_USE, usage=Usage(input=1, output=9)),
]


def seeds(target: str) -> Iterator[bytes]:
    """Yield the seeds of a target, including inputs that failed before."""
    assert target in TARGETS
    if (FAILING_INPUTS / target).is_dir():
        for path in sorted((FAILING_INPUTS / target).iterdir()):
            yield path.read_bytes()
    kind, _, rest = target.partition("-")
    if kind == "definition":
        yield from (text.encode() for text in ACCEPTED)
        yield from (str(number).encode() for number in range(50))
        return
    if kind == "request":
        yield from (json.dumps(body).encode() for body in _REQUESTS)
        return
    if kind == "text":
        yield from (text.encode() for text in _texts(rest))
        return
    dialect, _, format_name = rest.partition("-")
    for name in DIALECTS if kind == "sse" else [dialect]:
        yield DIALECTS[name].encoder(OPTIONS).feed(_MESSAGE)
        for text in list(_texts(format_name or "standard"))[:20]:
            yield text_from(name, [text[:30], text[30:]], "content")
    for path in sorted((FIXTURES / "wire").glob("*.json")):
        fixture = json.loads(path.read_text())
        if fixture["reading"]["upstream"] == dialect or kind == "sse":
            raw = fixture.get("raw")
            yield raw.encode() if raw is not None else b64decode(fixture["raw_base64"])
    if dialect != "anthropic":
        yield from (path.read_bytes()[:10_000] for path in (FIXTURES / "chat").glob("*.sse"))


def _texts(format_name: str) -> Iterator[str]:
    if format_name in OPERATOR_FORMATS:
        yield OPERATOR_FORMATS[format_name].sample
        return
    # A model of any family may be detected as standard.
    names = [format_name] if FORMATS[format_name] else [n for n in FORMATS if FORMATS[n]]
    for name in names:
        for vector in vectors_of(name):
            if 0 < len(vector["text"]) < 2000:
                yield vector["text"]
