"""Deletes old rows daily: in small batches, by one process at a time, and off the hot path.

The gateway settings set the number of days. Transcripts are deleted first, then exchanges with
their replays, the traffic sums, and failure groups that have no comment, assignee or decision.
Exchanges are deleted by whole days, in UTC, so the sums that remain match the exchanges that
remain. Between two batches, other processes can write.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Event
from time import monotonic
from typing import Any

from django.db import DatabaseError
from django.db.models import QuerySet

from proxy.configuration.snapshot import read_version
from proxy.database.clock import clock
from proxy.database.connections import renew_connection
from proxy.database.outage import safe_reason, statement_timeout
from proxy.models import (
    Chore,
    Exchange,
    FailureGroup,
    FailureHour,
    GatewaySettings,
    GroupState,
    Standing,
    TrafficSum,
    TrafficTime,
    Transcript,
)
from proxy.telemetry.metrics import ROWS_REMAINING

logger = logging.getLogger("athena.retention")

CHORE = "prune"
BATCH = 1000
PAUSE = 0.1
"""Seconds between two batches."""
_LOCK_TIME = timedelta(minutes=5)
_RUN_INTERVAL = timedelta(hours=23)  # not 24: the next run may start a little earlier in the day
_STATEMENT_SECONDS = 60
_MAX_COUNTED = 100_000
_MAX_RUN_SECONDS = 1800.0
"""A run stops after this time. The next check continues it."""
_CHECK_INTERVAL = 600.0
"""Seconds between two checks whether the daily run is due."""


class AlreadyPruning(Exception):
    """Another process is deleting old rows."""


def prune(
    *,
    now: datetime | None = None,
    batch: int = BATCH,
    pause: Callable[[], bool] | None = None,
    unless_done_since: datetime | None = None,
) -> dict[str, int] | None:
    """Delete old rows; returns how many of each kind, or None if the run is not due.

    `pause` is called between batches; if it returns True, the run ends. `unless_done_since`: the
    run is due only if the latest one was before. Raises AlreadyPruning.
    """
    now = now or _database_time()
    holder = secrets.token_hex(8)
    if not Chore.acquire(
        CHORE, holder, now=now, hold=_LOCK_TIME, unless_done_since=unless_done_since
    ):
        if unless_done_since is not None:
            return None
        raise AlreadyPruning
    deleted: dict[str, int] = {}
    is_done = False
    try:
        for name, count in _delete_batches(now, batch):
            deleted[name] = deleted.get(name, 0) + count
            if not count:
                continue
            if (pause is not None and pause()) or not Chore.extend(CHORE, holder, _lock_end()):
                return deleted
        is_done = True
    finally:
        Chore.release(CHORE, holder, done_at=now if is_done else None)
    return deleted


def _database_time() -> datetime:
    """The database's time: with a local clock that is fast, young rows would be deleted."""
    read_version()
    return clock.now()


def _lock_end() -> datetime:
    return clock.now() + _LOCK_TIME


def _delete_batches(now: datetime, batch: int) -> Iterator[tuple[str, int]]:
    """Delete batch after batch; yields the kind of rows, and how many were deleted."""
    for name, rows in expired_rows(now).items():
        yield name, 0
        while count := _delete(rows, batch):
            yield name, count


def _delete(rows: QuerySet[Any], batch: int) -> int:
    with statement_timeout(_STATEMENT_SECONDS):
        if rows.model is Standing:
            return Standing.delete_unused(rows, batch)
        keys = list(rows.values_list("pk", flat=True)[:batch])
        rows.model._default_manager.filter(pk__in=keys).delete()
    return len(keys)


def first_kept_day(now: datetime, days: int) -> datetime:
    """The start of the first day whose exchanges are kept."""
    return (now - timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)


def expired_rows(now: datetime) -> dict[str, QuerySet[Any]]:
    """The rows to delete, by kind, in the order of deletion."""
    settings = GatewaySettings.objects.get(pk=1)
    first_kept = first_kept_day(now, settings.exchange_days)
    # By primary key: a join would read every old exchange, and few have a transcript. Ids are in
    # the order in which exchanges end, so this is exact up to the duration of an exchange.
    expired = Exchange.objects.filter(
        created_at__lt=now - timedelta(days=settings.transcript_days)
    ).order_by("-created_at")
    last_expired = expired.values_list("pk", flat=True).first()
    transcripts = Transcript.objects.filter(pk__lte=last_expired or 0)
    untouched = FailureGroup.objects.filter(
        last_seen__lt=first_kept, state=GroupState.OPEN, assignee=None, comments=None
    )
    return {
        "transcripts": transcripts.order_by(),
        "exchanges": Exchange.objects.filter(created_at__lt=first_kept).order_by(),
        # Not yesterday's: a node that still runs the previous version may use them again.
        "shared request parts": Standing.unused().filter(
            used_on__lt=now.date() - timedelta(days=1)
        ),
        "traffic sums": TrafficSum.objects.filter(start__lt=first_kept).order_by(),
        "duration counts": TrafficTime.objects.filter(start__lt=first_kept).order_by(),
        "failure hours": FailureHour.objects.filter(hour__lt=first_kept).order_by(),
        "failure groups": untouched.order_by(),
    }


def count_expired_rows(now: datetime) -> int:
    """Count the rows to delete, up to a limit per kind."""
    with statement_timeout(_STATEMENT_SECONDS):
        return sum(rows[:_MAX_COUNTED].count() for rows in expired_rows(now).values())


class Retention:
    """The daily run, in each process of the gateway."""

    def __init__(self) -> None:
        self._stopping = Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="retention")

    async def run(self, *, first_after: float = 60.0) -> None:
        """Check regularly whether a run is due, until cancelled."""
        self._stopping.clear()
        # Random, so that processes started together do not check at the same time.
        await asyncio.sleep(first_after * (1 + secrets.randbelow(100) / 100))
        while True:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.prune_if_due)
            await asyncio.sleep(_CHECK_INTERVAL)

    def stop(self) -> None:
        """End a run after its current batch."""
        self._stopping.set()

    def prune_if_due(self) -> None:
        renew_connection()
        now = clock.now()
        deleted: dict[str, int] | None = {}
        try:
            try:
                until = monotonic() + _MAX_RUN_SECONDS
                deleted = prune(
                    now=now,
                    pause=lambda: self._stopping.wait(PAUSE) or monotonic() >= until,
                    unless_done_since=now - _RUN_INTERVAL,
                )
            finally:
                if deleted is not None:
                    ROWS_REMAINING.set(count_expired_rows(now))
        except DatabaseError as error:
            logger.warning("deleting old rows failed and is tried again: %s", safe_reason(error))
        except Exception:
            # The loop must go on: the next check tries again.
            logger.exception("deleting old rows failed because of a defect")
        else:
            if deleted and any(deleted.values()):
                logger.info("deleted old rows: %s", summary(deleted))


def summary(deleted: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in deleted.items())
