"""Splits a stored answer into pieces for the exchange page, and locates events in its text.

Offsets refer to the text of one side, with all channels joined. Some events cannot be located: a
call whose arguments were written as tags has no single place in the text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from formats import (
    DIALECTS,
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


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive text of one channel."""

    channel: str
    title: str
    text: str
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
            case ToolCallFailed(fault=fault):
                pieces.append(Piece(FAILURE, f"tool call failed: {fault}", ""))
            case MessageEnd(stop_reason=reason):
                pieces.append(Piece(END, reason, ""))
            case MessageFailed(kind=kind, message=message):
                pieces.append(Piece(FAILURE, kind, message))
    placed: list[Piece] = []
    offset = 0
    for piece in pieces:
        placed.append(replace(piece, offset=offset))
        offset += len(piece.text)
    return placed


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
        if isinstance(event, ToolCallFailed | MessageFailed):
            return _start_of(number, events, text, spans)
    return None


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
