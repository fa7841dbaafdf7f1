"""Exchanges → the sums that the dashboard shows, added up in the transaction that writes them.

One statement adds a batch, whether its rows are there yet or not. Rows are taken in one order, so
that processes which write at once wait and do not deadlock.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from proxy.buckets import bucket_of
from proxy.models import (
    FAILURES,
    Exchange,
    Facet,
    Measure,
    Outcome,
    Span,
    TrafficSum,
    TrafficTime,
)

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


def count_traffic(rows: Iterable[Exchange]) -> None:
    """Add exchanges, which were just saved, to their sums."""
    numbers: dict[tuple[Any, ...], list[tuple[int | None, ...]]] = {}
    times: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        told = _numbers(row)
        for span, start in _spans(row.created_at):
            for facet, value in _facets(row):
                numbers.setdefault((span, facet, start, value), []).append(told)
            for measure, took in _times(row):
                times[span, measure, start, bucket_of(took)] += 1
    sums = [(*key, *map(total, zip(*numbers[key], strict=True))) for key in sorted(numbers)]
    _add(TrafficSum._meta.db_table, ("span", "facet", "start", "value"), SUMS, sums)
    counts = [(*key, times[key]) for key in sorted(times)]
    _add(TrafficTime._meta.db_table, ("span", "measure", "start", "bucket"), ("count",), counts)


def _spans(moment: datetime) -> Iterator[tuple[str, Any]]:
    """Each with its start, as the database takes it."""
    hour = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    yield Span.HOUR, connection.ops.adapt_datetimefield_value(hour)
    yield Span.DAY, connection.ops.adapt_datetimefield_value(hour.replace(hour=0))


def _facets(row: Exchange) -> Iterator[tuple[str, str]]:
    yield Facet.ALL, ""
    yield Facet.MODEL, row.model
    yield Facet.FORMAT, row.format
    yield Facet.SERVED_BY, f"{row.upstream} {row.served_by}"


def _times(row: Exchange) -> Iterator[tuple[str, float]]:
    yield Measure.GATEWAY, row.gateway_ms
    # What was refused has a first byte, too, and says nothing of how fast answers begin.
    if row.first_byte_ms is not None and row.outcome == Outcome.OK:
        yield Measure.FIRST_BYTE, row.first_byte_ms


def _numbers(row: Exchange) -> tuple[int | None, ...]:
    """What an exchange adds to each of the sums."""
    return (
        1,
        row.outcome in FAILURES,
        row.outcome == Outcome.CLIENT_ERROR,
        row.outcome == Outcome.CLIENT_DISCONNECT,
        row.tool_calls,
        row.rescued_calls,
        row.rescued_calls > 0,
        row.leaked_format != "",
        row.input_tokens,
        row.output_tokens,
        row.cache_read_tokens,
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
