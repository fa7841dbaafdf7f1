"""Chart geometry: bar charts, line charts and sparklines as coordinates for SVG templates.

The SVG is stretched to the space available. Labels are rendered beside it as HTML text, because
text inside the SVG would be stretched too.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

WIDTH, HEIGHT = 1000, 200
_BAR_GAP = 0.22
"""Gap between two bars, as a share of the column width."""
_MIN_BLOCK_HEIGHT = 2.0
"""Height of the smallest nonzero block, so that one failure among thousands stays visible."""

_SPARKLINE_HOURS = 24
_SPARKLINE_HEIGHT = 24
_SPARKLINE_BAR_WIDTH = 4


@dataclass(frozen=True, slots=True)
class Block:
    """One segment of a stacked bar."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """Everything at one position of the x axis: hover area, link and bar."""

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
    """Labels of the y axis from top to bottom: maximum, half, zero."""


@dataclass(frozen=True, slots=True)
class Point:
    """Data at one position of the x axis."""

    title: str
    href: str
    values: Sequence[float | None]
    """Segment heights of a stacked bar from the bottom up, or one value per line."""


def bar_chart(
    points: Sequence[Point], kinds: Sequence[str], label: Callable[[float], str]
) -> Chart:
    """Build a stacked bar chart; `kinds` are the CSS classes of the segments."""
    top = round_top(max((sum(v or 0 for v in point.values) for point in points), default=0))
    columns = []
    for point, column in zip(points, _columns(points), strict=True):
        y = float(HEIGHT)
        for kind, value in zip(kinds, point.values, strict=True):
            if value:
                height = max(_MIN_BLOCK_HEIGHT, HEIGHT * value / top)
                y = max(0.0, y - height)
                column.blocks.append(Block(kind, _rounded(y), _rounded(height)))
        columns.append(column)
    return Chart(columns, [], _ticks(top, label))


def line_chart(
    points: Sequence[Point], kinds: Sequence[str], label: Callable[[float], str]
) -> Chart:
    """Build a line chart, one line per kind; a missing value leaves a gap in its line."""
    top = round_top(max((v for point in points for v in point.values if v is not None), default=0))
    columns = _columns(points)
    lines = []
    for number, kind in enumerate(kinds):
        values = [point.values[number] for point in points]
        places = [
            None if value is None else (column.x + column.width / 2, HEIGHT * (1 - value / top))
            for column, value in zip(columns, values, strict=True)
        ]
        lines.append(Line(kind, _path(places)))
    return Chart(columns, lines, _ticks(top, label))


def round_top(maximum: float) -> float:
    """Round up to an axis maximum whose half is a round number too."""
    if maximum <= 2:
        return 2.0
    scale = 10.0 ** math.floor(math.log10(maximum))
    return next(step * scale for step in (1, 2, 4, 6, 8, 10) if step * scale >= maximum)


def _ticks(top: float, label: Callable[[float], str]) -> list[str]:
    return [label(top), label(top / 2), label(0)]


def _columns(points: Sequence[Point]) -> list[Column]:
    width = WIDTH / max(1, len(points))
    return [
        Column(
            _rounded(number * width),
            _rounded(width),
            _rounded((number + _BAR_GAP / 2) * width),
            _rounded(width * (1 - _BAR_GAP)),
            point.title,
            point.href,
            [],
        )
        for number, point in enumerate(points)
    ]


def _path(places: Sequence[tuple[float, float] | None]) -> str:
    """Draw a line with gaps; a value alone between gaps becomes a dot (line caps are round)."""
    path = []
    for previous, place in pairwise([None, *places]):
        if place is not None:
            x, y = map(_rounded, place)
            path.append(f"M{x} {y}h0" if previous is None else f"L{x} {y}")
    return "".join(path)


def _rounded(number: float) -> float:
    return round(number, 2)


@dataclass(frozen=True, slots=True)
class SparklineBar:
    x: int
    y: int
    height: int
    title: str


def sparkline(counts: Mapping[datetime, int], now: datetime) -> list[SparklineBar]:
    """Build one bar per hour for the last 24 hours, the current hour last."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    hours = [this_hour - timedelta(hours=ago) for ago in reversed(range(_SPARKLINE_HOURS))]
    maximum = max((counts.get(hour, 0) for hour in hours), default=0) or 1
    bars = []
    for place, hour in enumerate(hours):
        count = counts.get(hour, 0)
        height = max(2, round(_SPARKLINE_HEIGHT * count / maximum)) if count else 1
        title = f"{hour:%d %b %H:00} UTC: {count}"
        x = place * (_SPARKLINE_BAR_WIDTH + 1)
        bars.append(SparklineBar(x, _SPARKLINE_HEIGHT - height, height, title))
    return bars
