"""Queries the traffic sums for a time range: in total, per step of a chart, and per facet.

A range consists of whole hours or whole days, in UTC, and ends with the current one. So its numbers
are exactly those of the exchanges since its start.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Sum

from proxy.audit.traffic.aggregation import SUMS, total
from proxy.audit.traffic.histogram import percentile
from proxy.models import Facet, Measure, Span, TrafficSum, TrafficTime

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_MAX_VALUES = 10


@dataclass(frozen=True, slots=True)
class TimeRange:
    label: str
    length: timedelta
    step: timedelta
    """Length of a step in the charts."""

    @property
    def unit(self) -> timedelta:
        """A range longer than a day starts at midnight."""
        return _HOUR if self.length <= _DAY else _DAY

    def start(self, now: datetime) -> datetime:
        this_hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        last = this_hour if self.unit == _HOUR else this_hour.replace(hour=0)
        return last + self.unit - self.length

    def steps(self, now: datetime) -> list[datetime]:
        """The start of each step that is not in the future."""
        start = self.start(now)
        starts = [start + number * self.step for number in range(self.length // self.step)]
        return [time for time in starts if time <= now]


RANGES = {
    "24h": TimeRange("24 hours", _DAY, _HOUR),
    "7d": TimeRange("7 days", 7 * _DAY, 6 * _HOUR),
    "30d": TimeRange("30 days", 30 * _DAY, _DAY),
    "90d": TimeRange("90 days", 90 * _DAY, _DAY),
}


@dataclass(frozen=True, slots=True)
class Sums:
    """The columns of `TrafficSum`. Tokens are None if no upstream reported any."""

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
        listed = list(parts)
        values = {name: total(getattr(part, name) for part in listed) for name in SUMS}
        return cls(**{name: value for name, value in values.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Durations in milliseconds; None without any."""

    p50: float | None
    p95: float | None
    p99: float | None

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> "Percentiles":
        return cls(*(percentile(counts, share) for share in (0.5, 0.95, 0.99)))


@dataclass(frozen=True, slots=True)
class Step:
    start: datetime
    end: datetime
    sums: Sums
    first_byte: Percentiles


@dataclass(frozen=True, slots=True)
class TrafficReport:
    start: datetime
    steps: list[Step]
    sums: Sums
    first_byte: Percentiles
    gateway: Percentiles


@dataclass(frozen=True, slots=True)
class FacetSums:
    value: str | None
    """A value of the facet; None for all values that are not listed."""
    sums: Sums


def query_range(time_range: TimeRange, now: datetime) -> TrafficReport:
    starts = time_range.steps(now)
    start = starts[0]
    span = Span.DAY if time_range.step >= _DAY else Span.HOUR

    def step_of(time: datetime) -> int:
        return (time - start) // time_range.step

    sums: dict[int, list[Sums]] = {}
    rows = TrafficSum.objects.filter(span=span, facet=Facet.ALL, start__gte=start)
    for time, *numbers in rows.values_list("start", *SUMS):
        sums.setdefault(step_of(time), []).append(Sums(*numbers))
    first_bytes: dict[int, Counter[int]] = {}
    times = TrafficTime.objects.filter(span=span, start__gte=start)
    by_step = times.filter(measure=Measure.FIRST_BYTE).values_list("start", "bucket", "count")
    for time, bucket, count in by_step:
        first_bytes.setdefault(step_of(time), Counter())[bucket] += count
    gateway = times.filter(measure=Measure.GATEWAY).values_list("bucket").annotate(Sum("count"))
    steps = [
        Step(
            begin,
            begin + time_range.step,
            Sums.of(sums.get(number, ())),
            Percentiles.of(first_bytes.get(number, {})),
        )
        for number, begin in enumerate(starts)
    ]
    return TrafficReport(
        start,
        steps,
        Sums.of(step.sums for step in steps),
        Percentiles.of(sum(first_bytes.values(), Counter())),
        Percentiles.of(dict(gateway)),
    )


def query_facet(time_range: TimeRange, now: datetime, facet: Facet) -> list[FacetSums]:
    """The sums per value of a facet, most requests first. The last entry sums up all others."""
    rows = TrafficSum.objects.filter(
        span=Span.HOUR if time_range.unit == _HOUR else Span.DAY,
        facet=facet,
        start__gte=time_range.start(now),
    )
    added: dict[str, Any] = {f"all_{name}": Sum(name) for name in SUMS}
    listed: Any = rows.values_list("value").annotate(**added)
    top = listed.order_by("-all_requests", "value")[: _MAX_VALUES + 1]
    facets = [FacetSums(value, Sums(*numbers)) for value, *numbers in top]
    if len(facets) <= _MAX_VALUES:
        return facets
    shown = facets[:_MAX_VALUES]
    others = rows.exclude(value__in=[entry.value for entry in shown]).aggregate(**added)
    return [*shown, FacetSums(None, Sums(*others.values()))]
