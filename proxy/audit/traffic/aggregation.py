"""Adds exchanges to the traffic sums, in the transaction that inserts them.

One statement per table adds a batch, and creates rows that do not exist yet. Rows are updated in
sorted order, so that processes that write at the same time do not deadlock.
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
    """Add exchanges that were just inserted to their sums."""
    by_facets: dict[tuple[Any, ...], list[tuple[int | None, ...]]] = {}
    durations: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        hour = row["created_at"].timestamp() // 3600
        facets = (hour, row["model"], row["format"], row["upstream"], row["served_by"])
        by_facets.setdefault(facets, []).append(_numbers(row))
        for measure, milliseconds in _durations(row):
            durations[hour, measure, bucket_of(milliseconds)] += 1
    numbers: dict[tuple[Any, ...], list[tuple[int | None, ...]]] = {}
    for (hour, model, format_name, upstream, served_by), parts in by_facets.items():
        sums = _add_up(parts)
        values = ("", model, format_name, f"{upstream} {served_by}")
        for span, start in _spans(hour):
            for facet, value in zip(_FACETS, values, strict=True):
                numbers.setdefault((span, facet, start, value), []).append(sums)
    counts: Counter[tuple[Any, ...]] = Counter()
    for (hour, measure, bucket), count in durations.items():
        for span, start in _spans(hour):
            counts[span, measure, start, bucket] += count
    _upsert(
        TrafficSum._meta.db_table,
        ("span", "facet", "start", "value"),
        SUMS,
        [(*key, *_add_up(numbers[key])) for key in sorted(numbers)],
    )
    _upsert(
        TrafficTime._meta.db_table,
        ("span", "measure", "start", "bucket"),
        ("count",),
        [(*key, counts[key]) for key in sorted(counts)],
    )


def _spans(hour: float) -> Iterator[tuple[str, Any]]:
    """The hour and the day, each with its start for the database. `hour`: hours since the epoch."""
    start = datetime.fromtimestamp(hour * 3600, UTC)
    yield Span.HOUR, connection.ops.adapt_datetimefield_value(start)
    yield Span.DAY, connection.ops.adapt_datetimefield_value(start.replace(hour=0))


def _add_up(parts: Iterable[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    return tuple(map(total, zip(*parts, strict=True)))


def _durations(row: Row) -> Iterator[tuple[str, float]]:
    outcome, first_byte = row["outcome"], row["first_byte_ms"]
    if outcome == Outcome.CRASHED:  # its durations are unknown
        return
    yield Measure.GATEWAY, row["gateway_ms"]
    # Errors have a first byte too, but it does not show how fast answers start.
    if first_byte is not None and outcome == Outcome.OK:
        yield Measure.FIRST_BYTE, first_byte


def _numbers(row: Row) -> tuple[int | None, ...]:
    """The numbers that an exchange adds, in the order of SUMS."""
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
    """The sum of the known numbers; None, not zero, if none is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _upsert(
    table: str, keys: tuple[str, ...], sums: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Add to the row of each key, or insert it."""
    columns, values = ", ".join((*keys, *sums)), ", ".join(["%s"] * len((*keys, *sums)))
    updates = ", ".join(
        # If one of the two is NULL, the other is the sum.
        f"{name} = COALESCE({table}.{name} + excluded.{name}, {table}.{name}, excluded.{name})"
        for name in sums
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} ({columns}) VALUES ({values})"  # noqa: S608  names only
            f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {updates}",
            rows,
        )
