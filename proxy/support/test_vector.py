"""Makes test data from an exchange: a vector of `tests/fixtures/native`, or a wire fixture.

A vector has the text that the model wrote, without framing, and the expected result. An exchange
that does not fit into a vector becomes a wire fixture, with the upstream's bytes. A person checks
the result before it becomes a test.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from formats import (
    FORMATS,
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
from proxy.support.replay import original_events, raw_answer


def make_vector(
    exchange: Exchange,
    content: TranscriptContent,
    *,
    format_name: str | None = None,
    events: Sequence[Sequence[Any]] | None = None,
) -> dict[str, Any]:
    """The vector. `format_name` and `events`: those of a replay with the right result."""
    if events is None:
        expected = original_events(content)
    else:
        expected = [load_event(list(fields)) for fields in events]
    upstream = content.reading.get("upstream", "openai")
    pieces = [
        piece
        for piece in pieces_of(decode_answer(raw_answer(content), upstream))
        if piece.channel in (TEXT, REASONING, CALL)
    ]
    channels = {piece.channel for piece in pieces}
    channel = "reasoning" if channels == {REASONING} else "content"
    is_plain_text = len(channels) <= 1 and CALL not in channels
    vector: dict[str, Any] = {
        "id": exchange.request_id,
        "format": format_name or exchange.format,
        "channel": channel,
        "tools": [_tool(tool) for tool in content.tools],
        "text": "".join(piece.text for piece in pieces) if is_plain_text else "",
    }
    if not is_plain_text:
        vector["deltas"] = _deltas(pieces)
    return vector | {"expect": _expect(expected, channel), "note": _note(exchange, content)}


def fits_vector(vector: dict[str, Any]) -> bool:
    """Return whether a vector can express it: one channel, one built-in format, one fault."""
    faults = {None, *(fault.value for fault in CallFault)}
    return (
        vector["format"] != STANDARD
        and vector["format"] in FORMATS  # others are only known with their definition
        and "deltas" not in vector
        and vector["expect"]["error"] in faults
    )


def make_wire_fixture(
    name: str, exchange: Exchange, content: TranscriptContent, replay: Replay
) -> dict[str, Any]:
    """The upstream's bytes, and the events that this version decodes from them."""
    raw = raw_answer(content)
    try:
        answer = {"raw": raw.decode()}
    except UnicodeDecodeError:
        answer = {"raw_base64": b64encode(raw).decode()}
    reading = content.reading | {
        "format": replay.format,
        "held_chars": replay.buffer_limit,
        "strict": replay.strict,
        "split_thinking": replay.split_thinking,
        "definition": replay.definition,
    }
    if replay.format != content.reading["format"]:
        reading["markers"] = []  # markers belong to the original format
    return {
        "id": name,
        "note": _note(exchange, content),
        "reading": reading,
        "tools": content.tools,
        **answer,
        "expect": replay.events,
    }


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "description": "", "parameters": tool["schema"]}
    return {"type": "function", "function": function}


def _deltas(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """The deltas of an OpenAI stream with the same content."""
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


def _note(exchange: Exchange, content: TranscriptContent) -> str:
    note = f"{exchange.upstream_model or exchange.model}: {exchange.error_code or 'from the audit'}"
    return f"{note}; clipped" if "raw" in content.left_out else note
