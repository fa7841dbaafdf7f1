"""Exchanges → the sums that the dashboard shows, added up in the transaction that writes them.

One statement adds a batch, whether its rows are there yet or not. Rows are taken in one order, so
that processes which write at once wait and do not deadlock.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from django.db import connection

from proxy.audit.traffic.histogram import bucket_of
from proxy.models import (
    FAILURES,
    Facet,
    Measure,
    Outcome,
    Span,
    TrafficSum,
    TrafficTime,
)

Row: TypeAlias = Mapping[str, Any]
"""The columns of an exchange."""

SUMS = (
    "requests",
    "failures",
    "client_errors",
    "disconnects",
    "calls",
    "calls_rescued",
    "rescued",
    "leaked",
    "tokens_in",
    "tokens_out",
    "tokens_cached",
)

_FACETS = (Facet.ALL, Facet.MODEL, Facet.FORMAT, Facet.SERVED_BY)


def count_traffic(rows: Iterable[Row]) -> None:
    """Add exchanges, which were just saved, to their sums."""
    told: dict[tuple[Any, ...], list[tuple[int | None, ...]]] = {}
    took: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        hour = row["created_at"].timestamp() // 3600
        alike = (hour, row["model"], row["format"], row["upstream"], row["served_by"])
        told.setdefault(alike, []).append(_numbers(row))
        for measure, milliseconds in _times(row):
            took[hour, measure, bucket_of(milliseconds)] += 1
    numbers: dict[tuple[Any, ...], list[tuple[int | None, ...]]] = {}
    for (hour, model, format_name, upstream, served_by), those in told.items():
        together = _sum(those)
        values = ("", model, format_name, f"{upstream} {served_by}")
        for span, start in _spans(hour):
            for facet, value in zip(_FACETS, values, strict=True):
                numbers.setdefault((span, facet, start, value), []).append(together)
    times: Counter[tuple[Any, ...]] = Counter()
    for (hour, measure, bucket), count in took.items():
        for span, start in _spans(hour):
            times[span, measure, start, bucket] += count
    sums = [(*key, *_sum(numbers[key])) for key in sorted(numbers)]
    _add(TrafficSum._meta.db_table, ("span", "facet", "start", "value"), SUMS, sums)
    counts = [(*key, times[key]) for key in sorted(times)]
    _add(TrafficTime._meta.db_table, ("span", "measure", "start", "bucket"), ("count",), counts)


def _spans(hour: float) -> Iterator[tuple[str, Any]]:
    """Each with its start, as the database takes it; hours are counted from the epoch."""
    start = datetime.fromtimestamp(hour * 3600, UTC)
    yield Span.HOUR, connection.ops.adapt_datetimefield_value(start)
    yield Span.DAY, connection.ops.adapt_datetimefield_value(start.replace(hour=0))


def _sum(those: Iterable[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    return tuple(map(total, zip(*those, strict=True)))


def _times(row: Row) -> Iterator[tuple[str, float]]:
    outcome, first_byte = row["outcome"], row["first_byte_ms"]
    if outcome == Outcome.CRASHED:  # its times are not known
        return
    yield Measure.GATEWAY, row["gateway_ms"]
    # What was refused has a first byte, too, and says nothing of how fast answers begin.
    if first_byte is not None and outcome == Outcome.OK:
        yield Measure.FIRST_BYTE, first_byte


def _numbers(row: Row) -> tuple[int | None, ...]:
    """What an exchange adds to each of the sums."""
    outcome, rescued = row["outcome"], row["rescued_calls"]
    return (
        1,
        outcome in FAILURES,
        outcome == Outcome.CLIENT_ERROR,
        outcome == Outcome.CLIENT_DISCONNECT,
        row["tool_calls"],
        rescued,
        rescued > 0,
        row["leaked_format"] != "",
        row["input_tokens"],
        row["output_tokens"],
        row["cache_read_tokens"],
    )


def total(numbers: Iterable[int | None]) -> int | None:
    """Their sum; None if nobody has told a number: that is not the same as zero."""
    told = [number for number in numbers if number is not None]
    return sum(told) if told else None


def _add(
    table: str, keys: tuple[str, ...], sums: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Add to the row of each key, or make it."""
    columns, marks = ", ".join((*keys, *sums)), ", ".join(["%s"] * len((*keys, *sums)))
    added = ", ".join(
        # A sum that one of the two does not have is the other's.
        f"{name} = COALESCE({table}.{name} + excluded.{name}, {table}.{name}, excluded.{name})"
        for name in sums
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608  no value is in it
            f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {added}",
            rows,
        )
