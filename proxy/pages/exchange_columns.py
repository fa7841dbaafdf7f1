"""Columns of the exchange page: model output, decoded events, client output; and answer diffs."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.audit.transcripts.codec import TranscriptContent, load_event
from proxy.models import Exchange
from proxy.security.visible_text import Segment, Span, segments, visible
from proxy.support.answer_parts import (
    EventLine,
    Piece,
    decode_answer,
    event_lines,
    join_pieces,
    locate_events,
    locate_failure,
    pieces_of,
    with_raw_arguments,
)
from proxy.support.replay import raw_answer, sent_answer

_MAX_TEXT_CHARS = 40_000
_MAX_RAW_CHARS = 30_000
_MAX_PIECES = 200
_MAX_DIFF_LINES = 600
_MAX_DIFF_LINE_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an answer, split into segments for display."""

    channel: str
    title: str
    fault: str
    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class Columns:
    model: list[Part]
    events: list[EventLine]
    client: list[Part]
    raw: list[Segment]
    sent: list[Segment]
    left_out: dict[str, str]
    """Formatted number of bytes missing from the transcript, by field name."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a side-by-side diff; `kind` is `same`, `changed`, `gone` or `new`."""

    kind: str
    before: str
    after: str


def columns_of(exchange: Exchange, content: TranscriptContent) -> Columns:
    reading = content.reading
    events = [load_event(fields) for fields in content.events]
    answer, dialect = raw_answer(content), reading.get("upstream", "openai")
    # Decoding an empty answer would report a missing end, which misleads if nothing was sent.
    model = pieces_of(decode_answer(answer, dialect)) if answer else []
    model = with_raw_arguments(model, answer, dialect)
    client = client_pieces(exchange, content)
    text = join_pieces(model)
    spans = locate_events(events, text)
    wrong = locate_failure(events, text, spans, leaked=bool(exchange.leaked_format))
    markers = [spelling for _, spelling in reading.get("markers", ())]
    client_text = join_pieces(client)
    client_wrong = (
        locate_failure(events, client_text, (), leaked=True) if exchange.leaked_format else None
    )
    return Columns(
        model=_parts(model, spans, wrong, markers),
        events=event_lines(events, spans),
        client=_parts(client, locate_events(events, client_text), client_wrong, markers),
        raw=_byte_segments(content.raw),
        sent=_byte_segments(content.sent),
        left_out={name: f"{count:,}" for name, (_, count) in content.left_out.items()},
    )


def client_pieces(exchange: Exchange, content: TranscriptContent) -> list[Piece]:
    """Decode the stored answer that the client received."""
    sent = sent_answer(content)
    return pieces_of(decode_answer(sent, exchange.dialect)) if sent else []


def diff_answers(before: Sequence[Piece], after: Sequence[Piece]) -> list[DiffLine]:
    """Compare two answers line by line, side by side."""
    old, new = _diff_lines(before), _diff_lines(after)
    lines: list[DiffLine] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, start_new, end_new in matcher.get_opcodes():
        if tag == "equal":
            lines += [DiffLine("same", text, text) for text in old[start:end]]
            continue
        removed, added = old[start:end], new[start_new:end_new]
        for number in range(max(len(removed), len(added))):
            left = removed[number] if number < len(removed) else None
            right = added[number] if number < len(added) else None
            kind = "new" if left is None else "gone" if right is None else "changed"
            lines.append(DiffLine(kind, left or "", right or ""))
    return lines


def _diff_lines(pieces: Sequence[Piece]) -> list[str]:
    lines: list[str] = []
    for piece in pieces:
        fault = f" failed: {piece.fault}" if piece.fault else ""
        lines.append(f"{piece.channel} {visible(piece.title)[:200]}".strip() + fault)
        lines += [
            f"  {visible(line)[:_MAX_DIFF_LINE_CHARS]}" for line in piece.text.split("\n") if line
        ]
        if len(lines) > _MAX_DIFF_LINES:
            return [*lines[:_MAX_DIFF_LINES], "… more lines not shown"]
    return lines


def _parts(
    pieces: Sequence[Piece], spans: Sequence[Span], wrong: int | None, markers: Sequence[str]
) -> list[Part]:
    window = max(2000, _MAX_TEXT_CHARS // max(1, len(pieces)))
    return [
        Part(
            piece.channel,
            visible(piece.title[:300]),
            piece.fault,
            segments(
                piece.text,
                _spans_inside(spans, piece),
                wrong=None
                if wrong is None or not _contains(piece, wrong)
                else wrong - piece.offset,
                more_markers=markers,
                window=window,
            ),
        )
        for piece in pieces[:_MAX_PIECES]
    ]


def _contains(piece: Piece, place: int) -> bool:
    return piece.offset <= place < piece.end


def _spans_inside(spans: Sequence[Span], piece: Piece) -> list[Span]:
    return [
        Span(
            max(span.start, piece.offset) - piece.offset,
            min(span.end, piece.end) - piece.offset,
            span.event,
        )
        for span in spans
        if span.start < piece.end and span.end > piece.offset
    ]


def _byte_segments(data: bytes) -> list[Segment]:
    return segments(data.decode("utf-8", "replace"), window=_MAX_RAW_CHARS)
