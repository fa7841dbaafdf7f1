"""Charts as geometry, for an SVG in a template: stretched to whatever room there is.

Labels are no part of it. They stand beside it as text, which must not be stretched.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 1000, 200
_GAP = 0.22
"""Of a column's width, between two bars."""
_LEAST = 2.0
"""The height of what is more than nothing."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a bar."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """All that is above one place of the axis: what a pointer meets there, and where it leads."""

    x: float
    width: float
    bar_x: float
    bar_width: float
    title: str
    href: str
    blocks: list[Block]


@dataclass(frozen=True, slots=True)
class Line:
    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    columns: list[Column]
    lines: list[Line]
    ticks: list[str]
    """Beside the axis, from the top: the highest, half of it, and nothing."""


@dataclass(frozen=True, slots=True)
class Point:
    """What there is at one place: the heights of a bar's parts from below, or those of lines."""

    title: str
    href: str
    values: Sequence[float | None]


def bars(points: Sequence[Point], kinds: Sequence[str], label: Callable[[float], str]) -> Chart:
    """Each a bar, of parts one above the other."""
    top = round_top(max((sum(v or 0 for v in point.values) for point in points), default=0))
    columns = []
    for point, column in zip(points, _columns(points), strict=True):
        y = float(HEIGHT)
        for kind, value in zip(kinds, point.values, strict=True):
            if value:
                height = max(_LEAST, HEIGHT * value / top)
                y = max(0.0, y - height)
                column.blocks.append(Block(kind, _rounded(y), _rounded(height)))
        columns.append(column)
    return Chart(columns, [], _ticks(top, label))


def lines(points: Sequence[Point], kinds: Sequence[str], label: Callable[[float], str]) -> Chart:
    """Each value a line; where there is none, it has a gap."""
    top = round_top(max((v for point in points for v in point.values if v is not None), default=0))
    columns = _columns(points)
    drawn = []
    for number, kind in enumerate(kinds):
        heights = [point.values[number] for point in points]
        places = [
            None if value is None else (column.x + column.width / 2, HEIGHT * (1 - value / top))
            for column, value in zip(columns, heights, strict=True)
        ]
        drawn.append(Line(kind, _path(places)))
    return Chart(columns, drawn, _ticks(top, label))


def round_top(most: float) -> float:
    """A round number not below, whose half is round, too."""
    if most <= 2:
        return 2.0
    scale = 10.0 ** math.floor(math.log10(most))
    return next(step * scale for step in (1, 2, 4, 6, 8, 10) if step * scale >= most)


def _ticks(top: float, label: Callable[[float], str]) -> list[str]:
    return [label(top), label(top / 2), label(0)]


def _columns(points: Sequence[Point]) -> list[Column]:
    width = WIDTH / max(1, len(points))
    return [
        Column(
            _rounded(number * width),
            _rounded(width),
            _rounded((number + _GAP / 2) * width),
            _rounded(width * (1 - _GAP)),
            point.title,
            point.href,
            [],
        )
        for number, point in enumerate(points)
    ]


def _path(places: Sequence[tuple[float, float] | None]) -> str:
    """A line through the places; one that stands alone becomes a dot, as caps are round."""
    path = []
    for before, place in pairwise([None, *places]):
        if place is not None:
            x, y = map(_rounded, place)
            path.append(f"M{x} {y}h0" if before is None else f"L{x} {y}")
    return "".join(path)


def _rounded(number: float) -> float:
    return round(number, 2)
