"""What happened in a range of time, from the sums: as a whole, step by step, and by a facet.

A range is made of whole hours or whole days, in UTC, and ends with the present one. So the numbers
are exactly those of the exchanges since its start.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Sum

from proxy.audit.traffic.histogram import percentile
from proxy.audit.traffic.sums import SUMS, total
from proxy.models import Facet, Measure, Span, TrafficSum, TrafficTime

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_MOST_VALUES = 10


@dataclass(frozen=True, slots=True)
class Range:
    label: str
    length: timedelta
    step: timedelta
    """Of the charts."""

    @property
    def unit(self) -> timedelta:
        """A range of days begins with a day."""
        return _HOUR if self.length <= _DAY else _DAY

    def start(self, now: datetime) -> datetime:
        this_hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        last = this_hour if self.unit == _HOUR else this_hour.replace(hour=0)
        return last + self.unit - self.length

    def steps(self, now: datetime) -> list[datetime]:
        """The starts of the steps, but for those that have not begun."""
        start = self.start(now)
        places = [start + number * self.step for number in range(self.length // self.step)]
        return [place for place in places if place <= now]


RANGES = {
    "24h": Range("24 hours", _DAY, _HOUR),
    "7d": Range("7 days", 7 * _DAY, 6 * _HOUR),
    "30d": Range("30 days", 30 * _DAY, _DAY),
    "90d": Range("90 days", 90 * _DAY, _DAY),
}


@dataclass(frozen=True, slots=True)
class Sums:
    """The columns of `TrafficSum`; tokens are None if no upstream told any."""

    requests: int = 0
    failures: int = 0
    client_errors: int = 0
    disconnects: int = 0
    calls: int = 0
    calls_rescued: int = 0
    rescued: int = 0
    leaked: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None

    @classmethod
    def of(cls, parts: Iterable["Sums"]) -> "Sums":
        found = list(parts)
        values = {name: total(getattr(part, name) for part in found) for name in SUMS}
        return cls(**{name: value for name, value in values.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Times:
    """How long things took, in milliseconds; None if there was nothing."""

    p50: float | None
    p95: float | None
    p99: float | None

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> "Times":
        return cls(*(percentile(counts, share) for share in (0.5, 0.95, 0.99)))


@dataclass(frozen=True, slots=True)
class Step:
    start: datetime
    end: datetime
    sums: Sums
    first_byte: Times


@dataclass(frozen=True, slots=True)
class Overview:
    start: datetime
    steps: list[Step]
    sums: Sums
    first_byte: Times
    gateway: Times


@dataclass(frozen=True, slots=True)
class Part:
    """What has one value of a facet; None is all that are not shown by themselves."""

    value: str | None
    sums: Sums


def overview(range_: Range, now: datetime) -> Overview:
    starts = range_.steps(now)
    start = starts[0]
    span = Span.DAY if range_.step >= _DAY else Span.HOUR

    def place(moment: datetime) -> int:
        return (moment - start) // range_.step

    sums: dict[int, list[Sums]] = {}
    rows = TrafficSum.objects.filter(span=span, facet=Facet.ALL, start__gte=start)
    for moment, *numbers in rows.values_list("start", *SUMS):
        sums.setdefault(place(moment), []).append(Sums(*numbers))
    first_bytes: dict[int, Counter[int]] = {}
    times = TrafficTime.objects.filter(span=span, start__gte=start)
    by_step = times.filter(measure=Measure.FIRST_BYTE).values_list("start", "bucket", "count")
    for moment, bucket, count in by_step:
        first_bytes.setdefault(place(moment), Counter())[bucket] += count
    gateway = times.filter(measure=Measure.GATEWAY).values_list("bucket").annotate(Sum("count"))
    steps = [
        Step(
            begin,
            begin + range_.step,
            Sums.of(sums.get(number, ())),
            Times.of(first_bytes.get(number, {})),
        )
        for number, begin in enumerate(starts)
    ]
    return Overview(
        start,
        steps,
        Sums.of(step.sums for step in steps),
        Times.of(sum(first_bytes.values(), Counter())),
        Times.of(dict(gateway)),
    )


def parts_of(range_: Range, now: datetime, facet: Facet) -> list[Part]:
    """By the values of a facet, the most requested first; what is left is one part, the last."""
    rows = TrafficSum.objects.filter(
        span=Span.HOUR if range_.unit == _HOUR else Span.DAY,
        facet=facet,
        start__gte=range_.start(now),
    )
    added: dict[str, Any] = {f"all_{name}": Sum(name) for name in SUMS}
    listed: Any = rows.values_list("value").annotate(**added)
    most = listed.order_by("-all_requests", "value")[: _MOST_VALUES + 1]
    found = [Part(value, Sums(*numbers)) for value, *numbers in most]
    if len(found) <= _MOST_VALUES:
        return found
    shown = found[:_MOST_VALUES]
    others = rows.exclude(value__in=[part.value for part in shown]).aggregate(**added)
    return [*shown, Part(None, Sums(*others.values()))]
