"""The columns of an exchange: what the model sent, what was understood, what the client got."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.audit.transcripts.codec import Said
from proxy.models import Exchange
from proxy.security.visible_text import Segment, Span, segments, visible
from proxy.support.answer_parts import (
    Piece,
    Shown,
    assembled,
    decode_answer,
    first_wrong,
    link,
    pieces_of,
    shown_events,
)
from proxy.support.replay import load_event, raw_answer, sent_answer

_WINDOW = 40_000
_RAW_WINDOW = 30_000
_MOST_PIECES = 200
_MOST_LINES = 600
_LONGEST_LINE = 2000


@dataclass(frozen=True, slots=True)
class Part:
    """A piece as it is shown."""

    channel: str
    title: str
    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class Columns:
    model: list[Part]
    events: list[Shown]
    client: list[Part]
    raw: list[Segment]
    sent: list[Segment]
    left_out: dict[str, str]
    """How many bytes of what were not kept."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of two answers beside each other; `kind` is `same`, `changed`, `gone` or `new`."""

    kind: str
    before: str
    after: str


def columns_of(exchange: Exchange, said: Said) -> Columns:
    reading = said.reading
    events = [load_event(fields) for fields in said.events]
    answer, dialect = raw_answer(said), reading.get("upstream", "openai")
    # Of an upstream that sent nothing, not even an end is missing.
    model = pieces_of(decode_answer(answer, dialect)) if answer else []
    client = client_pieces(exchange, said)
    text = assembled(model)
    spans = link(events, text)
    wrong = first_wrong(events, text, spans, leaked=bool(exchange.leaked_format))
    markers = [spelling for _, spelling in reading.get("markers", ())]
    client_text = assembled(client)
    client_wrong = (
        first_wrong(events, client_text, (), leaked=True) if exchange.leaked_format else None
    )
    return Columns(
        model=_parts(model, spans, wrong, markers),
        events=shown_events(events, spans),
        client=_parts(client, link(events, client_text), client_wrong, markers),
        raw=_bytes(said.raw),
        sent=_bytes(said.sent),
        left_out={name: f"{count:,}" for name, (_, count) in said.left_out.items()},
    )


def client_pieces(exchange: Exchange, said: Said) -> list[Piece]:
    """What the client got."""
    sent = sent_answer(said)
    return pieces_of(decode_answer(sent, exchange.dialect)) if sent else []


def difference(before: Sequence[Piece], after: Sequence[Piece]) -> list[Line]:
    """Two answers, line by line beside each other."""
    old, new = _lines(before), _lines(after)
    lines: list[Line] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, start_new, end_new in matcher.get_opcodes():
        if tag == "equal":
            lines += [Line("same", text, text) for text in old[start:end]]
            continue
        gone, came = old[start:end], new[start_new:end_new]
        for number in range(max(len(gone), len(came))):
            left = gone[number] if number < len(gone) else None
            right = came[number] if number < len(came) else None
            kind = "new" if left is None else "gone" if right is None else "changed"
            lines.append(Line(kind, left or "", right or ""))
    return lines


def _lines(pieces: Sequence[Piece]) -> list[str]:
    lines: list[str] = []
    for piece in pieces:
        lines.append(f"{piece.channel} {visible(piece.title)[:200]}".strip())
        lines += [f"  {visible(line)[:_LONGEST_LINE]}" for line in piece.text.split("\n") if line]
        if len(lines) > _MOST_LINES:
            return [*lines[:_MOST_LINES], "… and more"]
    return lines


def _parts(
    pieces: Sequence[Piece], spans: Sequence[Span], wrong: int | None, markers: Sequence[str]
) -> list[Part]:
    window = max(2000, _WINDOW // max(1, len(pieces)))
    return [
        Part(
            piece.channel,
            visible(piece.title[:300]),
            segments(
                piece.text,
                _inside(spans, piece),
                wrong=None if wrong is None or not _has(piece, wrong) else wrong - piece.offset,
                more_markers=markers,
                window=window,
            ),
        )
        for piece in pieces[:_MOST_PIECES]
    ]


def _has(piece: Piece, place: int) -> bool:
    return piece.offset <= place < piece.end


def _inside(spans: Sequence[Span], piece: Piece) -> list[Span]:
    return [
        Span(
            max(span.start, piece.offset) - piece.offset,
            min(span.end, piece.end) - piece.offset,
            span.event,
        )
        for span in spans
        if span.start < piece.end and span.end > piece.offset
    ]


def _bytes(data: bytes) -> list[Segment]:
    return segments(data.decode("utf-8", "replace"), window=_RAW_WINDOW)
