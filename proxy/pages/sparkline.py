"""A day of a failure group as a row of bars, for an SVG in a template."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

HOURS = 24
HEIGHT = 24
BAR = 4


@dataclass(frozen=True, slots=True)
class Bar:
    x: int
    y: int
    height: int
    title: str


def sparkline(counts: Mapping[datetime, int], now: datetime) -> list[Bar]:
    """One bar for each of the last hours, the present one last."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    hours = [this_hour - timedelta(hours=ago) for ago in reversed(range(HOURS))]
    most = max((counts.get(hour, 0) for hour in hours), default=0) or 1
    bars = []
    for place, hour in enumerate(hours):
        count = counts.get(hour, 0)
        height = max(2, round(HEIGHT * count / most)) if count else 1
        title = f"{hour:%d %b %H:00} UTC: {count}"
        bars.append(Bar(place * (BAR + 1), HEIGHT - height, height, title))
    return bars
