"""Splits a stored answer into pieces for the exchange page, and locates events in its text.

Offsets refer to the text of one side, with all channels joined. Some events cannot be located: a
call whose arguments were written as tags has no single place in the text.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from formats import (
    DIALECTS,
    CallFault,
    Event,
    FormatsError,
    Limits,
    MessageEnd,
    MessageFailed,
    Notice,
    ReasoningDelta,
    ReasoningRedacted,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    merge_deltas,
)
from proxy.security.visible_text import MARKERS, Span

TEXT, REASONING, CALL, END, FAILURE = "text", "reasoning", "tool call", "end", "failure"
_MIN_LOCATED_CHARS = 2  # a shorter text occurs everywhere
_MAX_DISTANCE = 200_000  # characters between two located events
_MAX_EVENTS = 1000
_MAX_DETAIL_CHARS = 2000
_MAX_HEADER_CHARS = 1000  # between a call's last located event and its arguments
_EVENT_DATA = re.compile(rb"^data: ?(.*)$", re.MULTILINE)
_UNFINISHED = re.compile(r'[^\s,:\[\]{}"]+\Z')  # a number or word, which is checked at its end
_COMMA = re.compile(r"\s*,\s*")
_CALL_BLOCKS = ("tool_use", "server_tool_use", "mcp_tool_use")
_EXACT_FAULTS = (CallFault.INVALID_JSON, CallFault.NON_OBJECT_ARGS)


class _Function(msgspec.Struct):
    arguments: Any = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    tool_calls: list[_Call] | None = None
    partial_json: str | None = None


class _Choice(msgspec.Struct):
    delta: _Message | None = None
    message: _Message | None = None


class _Block(msgspec.Struct):
    type: str = ""


class _Chunk(msgspec.Struct):
    """What both dialects say about calls, in a chunk or in a whole answer."""

    index: int | None = None
    choices: list[_Choice] = []
    content_block: _Block | None = None
    delta: _Message | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive text of one channel."""

    channel: str
    title: str
    text: str
    fault: str = ""
    """Why a tool call failed."""
    offset: int = 0
    """Offset in the joined text."""

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


def decode_answer(data: bytes, dialect: str) -> list[Event]:
    """Decode the framing of an answer up to its first error. Native formats are not decoded."""
    limit = len(data) + 1
    decoder = DIALECTS[dialect].decoder(Limits(line_bytes=limit, event_bytes=limit))
    is_whole = data.lstrip()[:1] == b"{"
    events: list[Event] = []
    try:
        events = decoder.read_whole(data) if is_whole else decoder.feed(data)
        if not is_whole:
            events += decoder.close()
    except FormatsError as error:
        events += [*decoder.take(), MessageFailed(error.kind, str(error))]
    return merge_deltas(events)


def pieces_of(events: Iterable[Event]) -> list[Piece]:
    """The pieces of text, reasoning and calls, in order, with their offsets."""
    pieces: list[Piece] = []
    is_open = False
    for event in events:
        match event:
            case TextDelta(text=text):
                pieces.append(Piece(TEXT, "", text))
            case ReasoningDelta(text=text):
                pieces.append(Piece(REASONING, "", text))
            case ReasoningRedacted():
                pieces.append(Piece(REASONING, "redacted by the provider", ""))
            case ToolCallStart(name=name):
                pieces.append(Piece(CALL, name, ""))
            case ToolCallDelta(json=json) if pieces:
                pieces[-1] = replace(pieces[-1], text=pieces[-1].text + json)
            case ToolCallFailed(fault=fault) if is_open and pieces:
                pieces[-1] = replace(pieces[-1], fault=fault)
            case ToolCallFailed(fault=fault):
                # Either no name was read, or more came after a call that had ended.
                pieces.append(Piece(FAILURE, f"tool call failed: {fault}", ""))
            case MessageEnd(stop_reason=reason):
                pieces.append(Piece(END, reason, ""))
            case MessageFailed(kind=kind, message=message):
                pieces.append(Piece(FAILURE, kind, message))
        if isinstance(event, ToolCallStart):
            is_open = True
        elif isinstance(event, ToolCallEnd | ToolCallFailed):
            is_open = False
    return _place(pieces)


def _place(pieces: Iterable[Piece]) -> list[Piece]:
    placed: list[Piece] = []
    offset = 0
    for piece in pieces:
        placed.append(replace(piece, offset=offset))
        offset += len(piece.text)
    return placed


def with_raw_arguments(pieces: Sequence[Piece], data: bytes, dialect: str) -> list[Piece]:
    """Give each failed call the text that the upstream sent as its arguments.

    Events end at the first invalid character; this text includes it and what follows.
    """
    if not any(piece.fault for piece in pieces):
        return list(pieces)
    unused = raw_arguments(data, dialect)
    whole: list[Piece] = []
    for piece in pieces:
        if piece.channel == CALL:
            text = next((raw for raw in unused if raw.startswith(piece.text)), None)
            if text is not None:
                unused.remove(text)
                whole.append(replace(piece, text=text) if piece.fault else piece)
                continue
        whole.append(piece)
    return _place(whole)


def raw_arguments(data: bytes, dialect: str) -> list[str]:
    """The text of each structured call's arguments, joined but not checked. Skips broken chunks."""
    calls: dict[object, list[str]] = {}
    names: dict[object, object] = {}
    texts = [data] if data.lstrip()[:1] == b"{" else _EVENT_DATA.findall(data)
    for text in texts:
        try:
            chunk = msgspec.json.decode(text, type=_Chunk)
        except (ValueError, RecursionError):
            continue
        if dialect == "anthropic":
            if chunk.content_block is not None and chunk.content_block.type in _CALL_BLOCKS:
                calls[chunk.index] = []
            if chunk.delta is not None and chunk.delta.partial_json:
                calls.setdefault(chunk.index, []).append(chunk.delta.partial_json)
            continue
        for choice in chunk.choices[:1]:
            for call in (choice.delta or choice.message or _Message()).tool_calls or ():
                known = names.get(call.index)
                if known is None or (call.id and call.id != known):
                    names[call.index] = call.id or known or call.index
                key = (call.index, names.get(call.index))
                if call.function is not None and isinstance(call.function.arguments, str):
                    calls.setdefault(key, []).append(call.function.arguments)
    return ["".join(fragments) for fragments in calls.values()]


def join_pieces(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def locate_events(events: Sequence[Event], text: str) -> list[Span]:
    """The place in the text of each event that can be located."""
    spans: list[Span] = []
    at = 0
    for number, event in enumerate(events[:_MAX_EVENTS]):
        wanted = _text_of(event)
        if len(wanted.strip()) < _MIN_LOCATED_CHARS:
            continue
        limit = at + len(wanted) + _MAX_DISTANCE
        start = text.find(wanted, at, limit)
        if start < 0 and (line := _first_line(wanted)):
            start, wanted = text.find(line, at, limit), line
        if start < 0:
            continue
        spans.append(Span(start, start + len(wanted), number))
        at = start + len(wanted)
    return spans


def locate_failure(
    events: Sequence[Event], text: str, spans: Sequence[Span], *, leaked: bool
) -> int | None:
    """The offset at which the failure begins; None if unknown."""
    if leaked:
        marker = MARKERS.search(text)
        return marker.start() if marker else None
    for number, event in enumerate(events):
        if isinstance(event, ToolCallFailed) and event.fault in _EXACT_FAULTS:
            place = _end_of_arguments(number, event, events, text, spans)
            return _start_of(number, events, text, spans) if place is None else place
        if isinstance(event, ToolCallFailed | MessageFailed):
            return _start_of(number, events, text, spans)
    return None


def _end_of_arguments(
    number: int, failed: ToolCallFailed, events: Sequence[Event], text: str, spans: Sequence[Span]
) -> int | None:
    """The place after the valid part of a failed call's arguments."""
    valid = events[number - 1] if number else None
    if not isinstance(valid, ToolCallDelta):
        return None
    at = max([span.end for span in spans if span.event < number - 1], default=0)
    start = text.find(valid.json, at, at + len(valid.json) + _MAX_HEADER_CHARS)
    if start < 0:
        return None
    end = start + len(valid.json)
    # Of complete arguments with text after them, the last brace is withheld from the client.
    rest = text[end + 1 :].lstrip()
    if text[end : end + 1] == "}" and failed.detail and rest.startswith(failed.detail):
        end = len(text) - len(rest)
    elif number_or_word := _UNFINISHED.search(valid.json):
        end = start + number_or_word.start()
    # A comma after a value is valid; delivery withholds it until the next key.
    if valid.json[-1] not in "{[,:" and (comma := _COMMA.match(text, end)):
        end = comma.end()
    return end if end < len(text) else None


def _start_of(number: int, events: Sequence[Event], text: str, spans: Sequence[Span]) -> int | None:
    """The start of an event without a place: after the last located event before it."""
    start = number
    while start and not isinstance(events[start - 1], ToolCallEnd | TextDelta | ReasoningDelta):
        start -= 1  # a failed call begins with its name
    at = max([span.end for span in spans if span.event < start], default=0)
    marker = MARKERS.search(text, at)
    if marker:
        return marker.start()
    return at if at < len(text) else None


def _text_of(event: Event) -> str:
    match event:
        case TextDelta(text=text) | ReasoningDelta(text=text):
            return text
        case ToolCallStart(name=name):
            return name
        case ToolCallDelta(json=json):
            return json
        case Notice(detail=detail):
            return detail if MARKERS.match(detail) else ""
    return ""


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0][:200]
    return line if len(line) >= 8 else ""


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event in the list of the exchange page."""

    number: int
    name: str
    kind: str
    detail: str
    is_linked: bool
    """True if the event is located in the text."""


def event_lines(events: Sequence[Event], spans: Iterable[Span]) -> list[EventLine]:
    linked = {span.event for span in spans}
    return [
        EventLine(number, type(event).__name__, _kind(event), _detail(event), number in linked)
        for number, event in enumerate(events[:_MAX_EVENTS])
    ]


def _kind(event: Event) -> str:
    match event:
        case Notice():
            return "notice"
        case ToolCallFailed() | MessageFailed():
            return "failure"
        case ToolCallStart() | ToolCallDelta() | ToolCallEnd():
            return "call"
        case TextDelta() | ReasoningDelta():
            return "text"
    return "frame"


def _detail(event: Event) -> str:
    fields = msgspec.structs.asdict(event)
    fields.pop("usage", None)
    return "  ".join(str(value)[:_MAX_DETAIL_CHARS] for value in fields.values() if value)
