"""A stored answer taken apart for people: its text by channel, and which event came from where.

Offsets count in the assembled text of one side, all channels one after the other. What an event
became of cannot always be told: a call whose arguments were written as tags has no one place.
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
_LEAST_LINKED = 2  # a shorter text is found anywhere
_FARTHEST = 200_000  # characters that an event may be from the one before it
_MOST_EVENTS = 1000
_LONGEST_DETAIL = 2000


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of one channel."""

    channel: str
    title: str
    text: str
    offset: int = 0
    """Where it begins in the assembled text."""

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


def decode_answer(data: bytes, dialect: str) -> list[Event]:
    """As much of an answer's framing as can be read, streamed or whole; no native format."""
    most = len(data) + 1
    decoder = DIALECTS[dialect].decoder(Limits(line_bytes=most, event_bytes=most))
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
    """The runs of text, reasoning and calls, in order, with where each begins."""
    pieces: list[Piece] = []
    for event in events:
        match event:
            case TextDelta(text=text):
                pieces.append(Piece(TEXT, "", text))
            case ReasoningDelta(text=text):
                pieces.append(Piece(REASONING, "", text))
            case ReasoningRedacted():
                pieces.append(Piece(REASONING, "redacted by the model's maker", ""))
            case ToolCallStart(name=name):
                pieces.append(Piece(CALL, name, ""))
            case ToolCallDelta(json=json) if pieces:
                pieces[-1] = replace(pieces[-1], text=pieces[-1].text + json)
            case ToolCallFailed(fault=fault):
                pieces.append(Piece(FAILURE, f"call given up: {fault}", ""))
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


def assembled(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def link(events: Sequence[Event], text: str) -> list[Span]:
    """For each event that can be found in the text, in order, where."""
    spans: list[Span] = []
    place = 0
    for number, event in enumerate(events[:_MOST_EVENTS]):
        wanted = _text_of(event)
        if len(wanted.strip()) < _LEAST_LINKED:
            continue
        limit = place + len(wanted) + _FARTHEST
        start = text.find(wanted, place, limit)
        if start < 0 and (line := _first_line(wanted)):
            start, wanted = text.find(line, place, limit), line
        if start < 0:
            continue
        spans.append(Span(start, start + len(wanted), number))
        place = start + len(wanted)
    return spans


def first_wrong(
    events: Sequence[Event], text: str, spans: Sequence[Span], *, leaked: bool
) -> int | None:
    """Where in the text the trouble begins, as far as it can be told."""
    if leaked:
        found = MARKERS.search(text)
        return found.start() if found else None
    for number, event in enumerate(events):
        if isinstance(event, ToolCallFailed | MessageFailed):
            return _before(number, events, text, spans)
    return None


def _before(number: int, events: Sequence[Event], text: str, spans: Sequence[Span]) -> int | None:
    """Where an event that has no place of its own must have begun: after the last that has one."""
    start = number
    while start and not isinstance(events[start - 1], ToolCallEnd | TextDelta | ReasoningDelta):
        start -= 1  # a call that broke begins with its name
    done = [span.end for span in spans if span.event < start]
    place = max(done, default=0)
    found = MARKERS.search(text, place)
    if found:
        return found.start()
    return place if place < len(text) else None


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
class Shown:
    """An event as a line of a list."""

    number: int
    name: str
    kind: str
    detail: str
    is_linked: bool


def shown_events(events: Sequence[Event], spans: Iterable[Span]) -> list[Shown]:
    linked = {span.event for span in spans}
    return [
        Shown(number, type(event).__name__, _kind(event), _detail(event), number in linked)
        for number, event in enumerate(events[:_MOST_EVENTS])
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
    return "  ".join(str(value)[:_LONGEST_DETAIL] for value in fields.values() if value)
