"""What is old is deleted: in small batches, by one process at a time, and off the hot path.

Transcripts go first, as the gateway's settings say, then exchanges with what hangs on them, their
sums, and groups of failures that nobody has touched. Exchanges go by whole days, in UTC, so that
the sums that stay are of exchanges that stay. Between two batches others may write.
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
from proxy.database.outage import patience, reason
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
_HOLD = timedelta(minutes=5)
_DAY = timedelta(hours=23)  # not 24: a run that starts a little earlier is no reason to skip a day
_STATEMENT_SECONDS = 60
_MOST_COUNTED = 100_000
_BUDGET = 1800.0
"""Seconds after which a run leaves the rest for the next look."""
_LOOK_AGAIN = 600.0
"""Seconds after which a process looks whether the daily run is due."""


class PrunedElsewhere(Exception):
    """Another process is at it."""


def prune(
    *,
    now: datetime | None = None,
    batch: int = BATCH,
    pause: Callable[[], bool] | None = None,
    unless_done_since: datetime | None = None,
) -> dict[str, int] | None:
    """Delete what is old, and say how much of what; None if it is not due.

    `pause` is called between batches; when it returns True, the rest is left for another time.
    Raises PrunedElsewhere.
    """
    moment = now or _database_time()
    holder = secrets.token_hex(8)
    if not Chore.take(CHORE, holder, now=moment, hold=_HOLD, unless_done_since=unless_done_since):
        if unless_done_since is not None:
            return None
        raise PrunedElsewhere
    deleted: dict[str, int] = {}
    is_done = False
    try:
        for name, count in _batches(moment, batch):
            deleted[name] = deleted.get(name, 0) + count
            if not count:
                continue
            if (pause is not None and pause()) or not Chore.keep(CHORE, holder, _until()):
                return deleted
        is_done = True
    finally:
        Chore.release(CHORE, holder, done_at=moment if is_done else None)
    return deleted


def _database_time() -> datetime:
    """Asked of the database itself: a clock that is fast must not delete what is young."""
    read_version()
    return clock.now()


def _until() -> datetime:
    return clock.now() + _HOLD


def _batches(now: datetime, batch: int) -> Iterator[tuple[str, int]]:
    """Deletes batch after batch; what was deleted, and how many."""
    for name, rows in old_rows(now).items():
        yield name, 0
        while count := _delete(rows, batch):
            yield name, count


def _delete(rows: QuerySet[Any], batch: int) -> int:
    with patience(_STATEMENT_SECONDS):
        if rows.model is Standing:
            return Standing.delete_unused(rows, batch)
        keys = list(rows.values_list("pk", flat=True)[:batch])
        rows.model._default_manager.filter(pk__in=keys).delete()
    return len(keys)


def oldest_kept(now: datetime, days: int) -> datetime:
    """The start of the first day whose exchanges are kept."""
    return (now - timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)


def old_rows(now: datetime) -> dict[str, QuerySet[Any]]:
    """By its name, whatever is to be deleted, in the order in which that is done."""
    settings = GatewaySettings.objects.get(pk=1)
    oldest = oldest_kept(now, settings.exchange_days)
    # By their keys alone: a join would look at every old exchange, and few have a transcript. Ids
    # grow with the end of an exchange, so that this is right but for the minutes that one takes.
    expired = Exchange.objects.filter(
        created_at__lt=now - timedelta(days=settings.transcript_days)
    ).order_by("-created_at")
    newest = expired.values_list("pk", flat=True).first()
    transcripts = Transcript.objects.filter(pk__lte=newest or 0)
    untouched = FailureGroup.objects.filter(
        last_seen__lt=oldest, state=GroupState.OPEN, assignee=None, comments=None
    )
    return {
        "transcripts": transcripts.order_by(),
        "exchanges": Exchange.objects.filter(created_at__lt=oldest).order_by(),
        # Not yesterday's: the version before, on a node not yet upgraded, may use them again.
        "shared request parts": Standing.unused().filter(
            used_on__lt=now.date() - timedelta(days=1)
        ),
        "sums": TrafficSum.objects.filter(start__lt=oldest).order_by(),
        "counts of times": TrafficTime.objects.filter(start__lt=oldest).order_by(),
        "hours of failures": FailureHour.objects.filter(hour__lt=oldest).order_by(),
        "groups of failures": untouched.order_by(),
    }


def remaining(now: datetime) -> int:
    """How many rows are to be deleted; of each kind, no more than so many are counted."""
    with patience(_STATEMENT_SECONDS):
        return sum(rows[:_MOST_COUNTED].count() for rows in old_rows(now).values())


class Retention:
    """The daily run, in a process of the gateway's."""

    def __init__(self) -> None:
        self._stopping = Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="retention")

    async def run(self, *, first_after: float = 60.0) -> None:
        """Look now and then whether a run is due, until cancelled."""
        self._stopping.clear()
        # Processes that were started together do not look at the same moment.
        await asyncio.sleep(first_after * (1 + secrets.randbelow(100) / 100))
        while True:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.prune_if_due)
            await asyncio.sleep(_LOOK_AGAIN)

    def stop(self) -> None:
        """End a run after the batch that it is at."""
        self._stopping.set()

    def prune_if_due(self) -> None:
        renew_connection()
        now = clock.now()
        deleted: dict[str, int] | None = {}
        try:
            try:
                until = monotonic() + _BUDGET
                deleted = prune(
                    now=now,
                    pause=lambda: self._stopping.wait(PAUSE) or monotonic() >= until,
                    unless_done_since=now - _DAY,
                )
            finally:
                if deleted is not None:
                    ROWS_REMAINING.set(remaining(now))
        except DatabaseError as error:
            logger.warning("the daily deletion of old rows failed: %s", reason(error))
        except Exception:
            # It must not end the watch: it is tried again.
            logger.exception("the daily deletion of old rows has a defect")
        else:
            if deleted and any(deleted.values()):
                logger.info("deleted: %s", summary(deleted))


def summary(deleted: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in deleted.items())
