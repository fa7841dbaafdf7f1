"""An exchange as a vector of the test suite, in the shape of `tests/fixtures/native`.

In a vector, the text is what the model wrote, without its framing; `expect` is how it was
understood, or how the given events have it. What does not fit that shape is a fixture of the wire.
A person checks either before it becomes a test.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from formats import (
    STANDARD,
    CallFault,
    Event,
    MessageFailed,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
)
from proxy.audit.transcripts.codec import TranscriptContent, load_event
from proxy.models import Exchange, Replay
from proxy.support.answer_parts import CALL, REASONING, TEXT, Piece, decode_answer, pieces_of
from proxy.support.replay import events_before, raw_answer


def fixture_of(
    exchange: Exchange,
    said: TranscriptContent,
    *,
    format_name: str | None = None,
    events: Sequence[Sequence[Any]] | None = None,
) -> dict[str, Any]:
    """The vector; `format_name` and the stored `events` are those of a replay that is right."""
    if events is None:
        read = events_before(said)
    else:
        read = [load_event(list(fields)) for fields in events]
    upstream = said.reading.get("upstream", "openai")
    pieces = pieces_of(decode_answer(raw_answer(said), upstream))
    words = [piece for piece in pieces if piece.channel in (TEXT, REASONING, CALL)]
    channels = {piece.channel for piece in words}
    channel = "reasoning" if channels == {REASONING} else "content"
    vector: dict[str, Any] = {
        "id": exchange.request_id,
        "format": format_name or exchange.format,
        "channel": channel,
        "tools": [_tool(tool) for tool in said.tools],
        "text": "".join(p.text for p in words)
        if len(channels) <= 1 and CALL not in channels
        else "",
    }
    if len(channels) > 1 or CALL in channels:
        vector["deltas"] = _deltas(words)
    return vector | {"expect": _expect(read, channel), "note": _note(exchange, said)}


def is_vector(fixture: dict[str, Any]) -> bool:
    """Whether it says all in the shape of a vector: one channel, and a fault or none."""
    faults = {None, *(fault.value for fault in CallFault)}
    return (
        fixture["format"] != STANDARD
        and "deltas" not in fixture
        and fixture["expect"]["error"] in faults
    )


def wire_of(
    name: str, exchange: Exchange, said: TranscriptContent, tried: Replay
) -> dict[str, Any]:
    """The upstream's very bytes, and the events that today's code makes of them."""
    raw = raw_answer(said)
    try:
        answer = {"raw": raw.decode()}
    except UnicodeDecodeError:
        answer = {"raw_base64": b64encode(raw).decode()}
    reading = said.reading | {
        "format": tried.format,
        "held_chars": tried.buffer_limit,
        "strict": tried.strict,
    }
    if tried.format != said.reading["format"]:
        reading["markers"] = []  # other spellings are those of the format that they were set for
    return {
        "id": name,
        "note": _note(exchange, said),
        "reading": reading,
        "tools": said.tools,
        **answer,
        "expect": tried.events,
    }


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "description": "", "parameters": tool["schema"]}
    return {"type": "function", "function": function}


def _deltas(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """The deltas of an OpenAI stream that says the same."""
    deltas: list[dict[str, Any]] = []
    calls = 0
    for piece in pieces:
        if piece.channel == CALL:
            function = {"name": piece.title, "arguments": piece.text}
            call = {"index": calls, "id": f"call_{calls}", "type": "function", "function": function}
            deltas.append({"tool_calls": [call]})
            calls += 1
        else:
            field = "content" if piece.channel == TEXT else "reasoning_content"
            deltas.append({field: piece.text})
    return deltas


def _expect(events: Sequence[Event], channel: str) -> dict[str, Any]:
    run = TextDelta if channel == "content" else ReasoningDelta
    calls: list[dict[str, Any]] = []
    text = ""
    for event in events:
        match event:
            case ToolCallStart():
                call, text = event, ""
            case ToolCallDelta(json=json):
                text += json
            case ToolCallEnd():
                arguments = msgspec.json.decode(text or "{}")
                calls.append({"name": call.name, "arguments": arguments, "id": call.id})
    faults = [event.fault.value for event in events if isinstance(event, ToolCallFailed)]
    failures = [event.kind.value for event in events if isinstance(event, MessageFailed)]
    return {
        "text": "".join(event.text for event in events if isinstance(event, run)),
        "calls": calls,
        "error": next(iter(faults + failures), None),
    }


def _note(exchange: Exchange, said: TranscriptContent) -> str:
    note = (
        f"{exchange.upstream_model or exchange.model}: {exchange.error_code or 'seen in the audit'}"
    )
    return f"{note}; clipped" if "raw" in said.left_out else note
