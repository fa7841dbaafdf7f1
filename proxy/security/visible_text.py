"""Prepares hostile text for display: names invisible characters and highlights markers.

It does not produce HTML: a text becomes segments, which templates escape like any other value.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NAMES = {0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL", 0xFEFF: "BOM"}
# Controls except tab and newline; soft hyphen; zero width, bidi, separators; lone surrogates; tags;
# private use. Not variation selectors, which emoji use.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
# Special tokens and tags of any model family, also unknown ones. For display only.
MARKERS = re.compile(
    r"<\|[^|<>\s]{1,60}\|>"
    r"|<｜[^｜<>]{1,60}｜>"
    r"|</?[|｜‖]+ ?DSML ?[|｜‖]+[^<>\n]{0,100}>"
    r"|</?(?:tool_calls?|tools|think|function_call|tool_response|minimax:tool_call|arg_key|arg_value)>"
    r"|</?(?:function|parameter|invoke)(?:[= ][^<>\n]{1,100})?>"
    r"|✿[A-Z]{3,12}✿"
    r"|\[/?TOOL_CALLS\]|\[EO[ST]\]"
)
# Marked as wrong, with white space before it that could not be seen alone.
_FIRST_CHARACTER = re.compile(r"\s*\S?")
_MAX_SEGMENTS = 1500  # per text; the rest is plain text


@dataclass(frozen=True, slots=True)
class Segment:
    kind: str
    """`text`, `marker`, `invisible`, `gap`."""
    text: str
    event: int | None = None
    """Index of the event that was decoded from this segment."""
    is_wrong: bool = False
    """The segment is the place of the first translation error."""
    title: str = ""


def _character_name(char: str) -> str:
    return _NAMES.get(ord(char), f"U+{ord(char):04X}")


def visible(text: str) -> str:
    """Replace every invisible character by its name in brackets."""
    return _INVISIBLE.sub(lambda match: f"⟦{_character_name(match[0])}⟧", text)


@dataclass(frozen=True, slots=True)
class Span:
    """Range of a text that was decoded into an event."""

    start: int
    end: int
    event: int


def segments(
    text: str,
    spans: Iterable[Span] = (),
    *,
    wrong: int | None = None,
    more_markers: Sequence[str] = (),
    window: int = 40_000,
) -> list[Segment]:
    """Split a text where its kind or event changes.

    `wrong` is the offset of the first translation error. A text longer than `window` is shortened
    to its start, its end and the surroundings of `wrong`.
    """
    out: list[Segment] = []
    events = _EventCursor(spans)
    shown = 0
    for start, end in _shown_ranges(len(text), wrong, window):
        if start > shown:
            out.append(Segment("gap", f"{start - shown:,}"))
        room = _MAX_SEGMENTS - len(out)
        out += _split(text, start, end, events, wrong, _pattern(more_markers), room)
        shown = end
    return out


class _EventCursor:
    """Finds the event at an offset; offsets must be queried in ascending order."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = sorted(spans, key=lambda span: (span.start, span.end))
        self._next = 0

    def at(self, offset: int, limit: int) -> tuple[int | None, int]:
        """Return the event at an offset, and the offset where it changes."""
        while self._next < len(self._spans) and self._spans[self._next].end <= offset:
            self._next += 1
        if self._next == len(self._spans):
            return None, limit
        span = self._spans[self._next]
        if span.start > offset:
            return None, min(span.start, limit)
        return span.event, min(span.end, limit)


def _pattern(more: Sequence[str]) -> "re.Pattern[str]":
    if not more:
        return MARKERS
    return re.compile(f"{MARKERS.pattern}|{'|'.join(map(re.escape, more))}")


def _shown_ranges(size: int, wrong: int | None, window: int) -> list[tuple[int, int]]:
    if size <= window:
        return [(0, size)]
    half, quarter = window // 2, window // 4
    ranges = [(0, half), (size - quarter, size)]
    if wrong is not None:
        ranges.insert(1, (max(0, wrong - quarter // 2), min(size, wrong + quarter // 2)))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _split(
    text: str,
    start: int,
    end: int,
    events: _EventCursor,
    wrong: int | None,
    markers: "re.Pattern[str]",
    room: int,
) -> list[Segment]:
    out: list[Segment] = []
    offset = start
    marker = markers.search(text, offset, end)
    while offset < end and len(out) < room:
        event, limit = events.at(offset, end)
        if wrong is not None and offset < wrong < limit:
            limit = wrong
        if marker and marker.start() < offset:
            marker = markers.search(text, offset, end)
        # A marker is never split, even if events change inside it.
        if marker and marker.start() == offset:
            out.append(
                Segment("marker", visible(marker[0]), event, is_wrong=_is_in(wrong, offset, marker))
            )
            offset = marker.end()
            continue
        limit = min(limit, marker.start()) if marker else limit
        if wrong == offset:
            limit = _FIRST_CHARACTER.match(text, offset, limit).end()  # type: ignore[union-attr]
        out += _split_invisible(
            text[offset:limit], event, room - len(out), is_wrong=wrong == offset
        )
        offset = limit
    if offset < end:
        out.append(Segment("text", visible(text[offset:end])))
    return out


def _is_in(wrong: int | None, offset: int, marker: "re.Match[str]") -> bool:
    return wrong is not None and offset <= wrong < marker.end()


def _split_invisible(text: str, event: int | None, room: int, *, is_wrong: bool) -> list[Segment]:
    """Split text without markers into visible and invisible runs."""
    out: list[Segment] = []
    offset = 0
    for run in re.finditer(f"({_INVISIBLE.pattern})\\1*", text):
        if len(out) >= room:
            break
        if run.start() > offset:
            out.append(Segment("text", text[offset : run.start()], event, is_wrong))
            is_wrong = False
        count = len(run[0])
        label = _character_name(run[1]) + (f"×{count}" if count > 1 else "")
        title = unicodedata.name(run[1], "control character").lower()
        out.append(Segment("invisible", label, event, is_wrong, title))
        is_wrong = False
        offset = run.end()
    if offset < len(text):
        out.append(Segment("text", visible(text[offset:]), event, is_wrong))
    return out
