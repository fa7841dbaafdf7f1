"""Text of others, made safe to look at: what cannot be seen is named, what is a marker is marked.

Nothing here makes HTML. A text becomes segments, which templates escape like any other value.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NAMES = {0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL", 0xFEFF: "BOM"}
# Controls but tab and newline; soft hyphen; zero width, bidi, separators; variation selectors are
# left alone, as every emoji has one; lone surrogates; tags; private use.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
# Any family's special tokens and tags, known to a format or not: this is for eyes only.
MARKERS = re.compile(
    r"<\|[^|<>\s]{1,60}\|>"
    r"|<｜[^｜<>]{1,60}｜>"
    r"|</?[|｜‖]+ ?DSML ?[|｜‖]+[^<>\n]{0,100}>"
    r"|</?(?:tool_calls?|tools|think|function_call|tool_response|minimax:tool_call|arg_key|arg_value)>"
    r"|</?(?:function|parameter|invoke)(?:[= ][^<>\n]{1,100})?>"
    r"|✿[A-Z]{3,12}✿"
    r"|\[/?TOOL_CALLS\]|\[EO[ST]\]"
)
_MOST_SEGMENTS = 1500  # of one text; what comes after is plain


@dataclass(frozen=True, slots=True)
class Segment:
    kind: str
    """`text`, `marker`, `invisible`, `gap`."""
    text: str
    event: int | None = None
    """The event that this piece became."""
    is_wrong: bool = False
    """The first place that was misunderstood."""
    title: str = ""


def name_of(char: str) -> str:
    """A character that cannot be seen, as its name or number."""
    return _NAMES.get(ord(char), f"U+{ord(char):04X}")


def visible(text: str) -> str:
    """One text with every invisible character replaced by its name in brackets."""
    return _INVISIBLE.sub(lambda found: f"⟦{name_of(found[0])}⟧", text)


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a text, and the event that it became."""

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
    """The text cut where its kind or its event changes; of a long one, what is worth seeing.

    `wrong` is the offset of the first place that was misunderstood.
    """
    out: list[Segment] = []
    owners = _Owners(spans)
    shown = 0
    for start, end in _kept(len(text), wrong, window):
        if start > shown:
            out.append(Segment("gap", f"{start - shown:,}"))
        room = _MOST_SEGMENTS - len(out)
        out += _cut(text, start, end, owners, wrong, _pattern(more_markers), room)
        shown = end
    return out


class _Owners:
    """Which event a place belongs to; places are asked for in order."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = sorted(spans, key=lambda span: (span.start, span.end))
        self._next = 0

    def at(self, place: int, limit: int) -> tuple[int | None, int]:
        """The event at a place, and where that changes."""
        while self._next < len(self._spans) and self._spans[self._next].end <= place:
            self._next += 1
        if self._next == len(self._spans):
            return None, limit
        span = self._spans[self._next]
        if span.start > place:
            return None, min(span.start, limit)
        return span.event, min(span.end, limit)


def _pattern(more: Sequence[str]) -> "re.Pattern[str]":
    if not more:
        return MARKERS
    return re.compile(f"{MARKERS.pattern}|{'|'.join(map(re.escape, more))}")


def _kept(size: int, wrong: int | None, window: int) -> list[tuple[int, int]]:
    """The ranges of a text that are shown: its head, its tail, and where it went wrong."""
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


def _cut(
    text: str,
    start: int,
    end: int,
    owners: _Owners,
    wrong: int | None,
    markers: "re.Pattern[str]",
    room: int,
) -> list[Segment]:
    out: list[Segment] = []
    place = start
    marker = markers.search(text, place, end)
    while place < end and len(out) < room:
        event, limit = owners.at(place, end)
        if wrong is not None and place < wrong < limit:
            limit = wrong
        if marker and marker.start() < place:
            marker = markers.search(text, place, end)
        # A marker stays in one piece, whatever events it is between.
        if marker and marker.start() == place:
            out.append(
                Segment("marker", visible(marker[0]), event, is_wrong=_is_in(wrong, place, marker))
            )
            place = marker.end()
            continue
        limit = min(limit, marker.start()) if marker else limit
        out += _plain(text[place:limit], event, room - len(out), is_wrong=wrong == place)
        place = limit
    if place < end:
        out.append(Segment("text", visible(text[place:end])))
    return out


def _is_in(wrong: int | None, place: int, marker: "re.Match[str]") -> bool:
    return wrong is not None and place <= wrong < marker.end()


def _plain(text: str, event: int | None, room: int, *, is_wrong: bool) -> list[Segment]:
    """Text without markers: runs of what is seen, and of what is not."""
    out: list[Segment] = []
    place = 0
    for found in re.finditer(f"({_INVISIBLE.pattern})\\1*", text):
        if len(out) >= room:
            break
        if found.start() > place:
            out.append(Segment("text", text[place : found.start()], event, is_wrong))
            is_wrong = False
        count = len(found[0])
        label = name_of(found[1]) + (f"×{count}" if count > 1 else "")
        title = unicodedata.name(found[1], "control character").lower()
        out.append(Segment("invisible", label, event, is_wrong, title))
        is_wrong = False
        place = found.end()
    if place < len(text):
        out.append(Segment("text", visible(text[place:]), event, is_wrong))
    return out
