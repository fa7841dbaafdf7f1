"""Draws line plots as SVG, with linear or logarithmic axes, for light and dark backgrounds.

A logarithmic axis has a label at every power of ten. On two such axes, values in proportion are on
a straight line; a dashed guide shows it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 40, 48
_STYLE = """
svg { color-scheme: light dark; font: 12px system-ui, sans-serif; }
.paper { fill: #fff; } text { fill: #333; } .title { font-weight: 600; font-size: 13px; }
.grid { stroke: #ddd; } .axis { stroke: #888; } .guide { stroke: #888; stroke-dasharray: 4 4; }
.line { fill: none; stroke-width: 2; }
.s0 { stroke: #0b5fb0; fill: #0b5fb0; } .s1 { stroke: #b3400a; fill: #b3400a; }
.s2 { stroke: #1f7a3d; fill: #1f7a3d; } .s3 { stroke: #7a3d9e; fill: #7a3d9e; }
text.s0, text.s1, text.s2, text.s3 { stroke: none; } .line { fill: none !important; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #16181c; } text { fill: #ddd; } .grid { stroke: #333; } .axis { stroke: #777; }
  .s0 { stroke: #6cb2ff; fill: #6cb2ff; } .s1 { stroke: #ff9a5c; fill: #ff9a5c; }
  .s2 { stroke: #6fd08c; fill: #6fd08c; } .s3 { stroke: #c99bea; fill: #c99bea; }
}
"""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[Point]
    is_guide: bool = False
    """Dashed: an ideal line, not measured."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    x_label: str
    lines: Sequence[Line]
    log: bool = True


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values to coordinates."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    step: float = 0.0
    """Distance between two ticks of a linear scale."""

    def position(self, value: float) -> float:
        if self.log:
            low, high, value = math.log10(self.low), math.log10(self.high), math.log10(value)
        else:
            low, high = self.low, self.high
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        return [self.low + self.step * n for n in range(round(self.high / self.step) + 1)]


def _step(size: float) -> float:
    """The next round number, at least `size`."""
    scale = 10.0 ** math.floor(math.log10(size))
    return next(part * scale for part in (1, 2, 5, 10) if part * scale >= size * 0.999)


def _axis(
    values: Sequence[float], start: float, end: float, *, log: bool, min_step: float = 0.0
) -> _Scale:
    """A scale for the values; `min_step` is the minimum distance of ticks on a linear one."""
    if log:
        low = 10.0 ** math.floor(math.log10(min(values)) + 1e-9)
        high = 10.0 ** math.ceil(math.log10(max(values)) - 1e-9)
        return _Scale(low, high if high > low else low * 10, start, end, True)
    step = max(min_step, _step(max(values) / 4))
    return _Scale(0.0, step * math.ceil(max(values) / step), start, end, False, step)


def label(value: float) -> str:
    """A short form of a number: 200k, 10M, 0.1."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _text(x: float, y: float, text: str, *, anchor: str = "middle", kind: str = "") -> str:
    chosen = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{chosen}>{escape(text)}</text>'


def _grid(x: _Scale, y: _Scale) -> list[str]:
    top, bottom, left, right = _TOP, HEIGHT - _BOTTOM, _LEFT, WIDTH - _RIGHT
    parts = []
    for value in y.ticks():
        place = y.position(value)
        parts.append(f'<path class="grid" d="M{left} {place}H{right}"/>')
        parts.append(_text(left - 8, place + 4, label(value), anchor="end"))
    for value in x.ticks():
        place = x.position(value)
        parts.append(f'<path class="grid" d="M{place} {top}V{bottom}"/>')
        parts.append(_text(place, bottom + 18, label(value)))
    return [*parts, f'<path class="axis" d="M{left} {top}V{bottom}H{right}" fill="none"/>']


def _draw(line: Line, number: int, x: _Scale, y: _Scale) -> list[str]:
    places = [(x.position(a), y.position(b)) for a, b in line.points]
    path = "M" + "L".join(f"{a} {b}" for a, b in places)
    if line.is_guide:
        return [f'<path class="line guide" d="{path}"/>']
    dots = [f'<circle class="s{number}" cx="{a}" cy="{b}" r="3"/>' for a, b in places]
    return [f'<path class="line s{number}" d="{path}"/>', *dots]


def _panel(panel: Panel) -> str:
    points = [point for line in panel.lines for point in line.points]
    x = _axis([a for a, _ in points], _LEFT, WIDTH - _RIGHT, log=panel.log, min_step=1.0)
    y = _axis([b for _, b in points], HEIGHT - _BOTTOM, _TOP, log=panel.log)
    parts = [_text(_LEFT, 22, panel.title, anchor="start", kind="title"), *_grid(x, y)]
    guides = [f"dashed: {line.name}" for line in panel.lines if line.is_guide]
    below = "; ".join([panel.x_label, *guides])
    parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 10, below))
    measured = [line for line in panel.lines if not line.is_guide]
    for line in panel.lines:
        number = measured.index(line) if line in measured else 0
        parts += _draw(line, number, x, y)
    if len(measured) > 1:
        for number, line in enumerate(measured):
            at = _TOP + 16 + 16 * number
            parts.append(_text(_LEFT + 10, at, line.name, anchor="start", kind=f"s{number}"))
    return "\n".join(parts)


def document(panels: Sequence[Panel], *, columns: int = 2) -> str:
    """Draw all panels in one SVG."""
    columns = min(columns, len(panels))
    width, height = WIDTH * columns, HEIGHT * math.ceil(len(panels) / columns)
    description = escape("; ".join(panel.title for panel in panels))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{description}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
    ]
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        parts.append(f'<g transform="translate({column * WIDTH} {row * HEIGHT})">')
        parts += [_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def in_proportion(points: Sequence[Point]) -> Line:
    """A guide through the last point, with values in proportion."""
    x, y = points[-1]
    return Line("in proportion", [(a, y * a / x) for a, _ in points], is_guide=True)
