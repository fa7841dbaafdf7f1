"""Exchanges → rows, in batches, off the hot path.

What is to be kept is decided and redacted when an exchange ends; a thread writes it a moment later.
The queue is bounded: when the database is away for long, rows are dropped and counted, and traffic
goes on. A row that the database refuses is dropped alone.
"""

import asyncio
import logging
import random
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.db import InterfaceError, OperationalError, close_old_connections, transaction

from proxy import models
from proxy.exchange import Exchange
from proxy.failures import count_failures, fingerprint, leak_mark
from proxy.metrics import AUDIT_DROPPED
from proxy.models import FAILURES
from proxy.record import record, redactor_of
from proxy.traffic import count_traffic
from proxy.transcript import transcript_fields

logger = logging.getLogger("athena.audit")

_INTERVAL = 1.0
_BATCH = 500
_MOST_WAITING = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    exchange: dict[str, Any]
    transcript: dict[str, Any] | None
    fingerprint: str | None


class Audit:
    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: deque[Entry] = deque()
        self._kept: Counter[str] = Counter()  # transcripts of each kind of trouble in this hour
        self._hour = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audit")

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, exchange: Exchange, status: int) -> None:
        """Remember an exchange that has ended."""
        redactor = redactor_of(exchange)
        exchange.log(status, redactor.text)
        if exchange.snapshot is None:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._drop()
            return
        row = record(exchange, status, redactor)
        mark = fingerprint(row) if exchange.outcome in FAILURES else None
        kept = None
        if self._keeps(exchange, leak_mark(row) if mark is None else mark):
            try:
                kept = transcript_fields(exchange, redactor)
            except Exception as error:  # noqa: BLE001  a defect there costs the transcript alone
                # Without its words and its frames, which may have the content.
                name = type(error).__name__
                logger.error("no transcript, a defect: %s", name)  # noqa: TRY400
        self._waiting.append(Entry(row, kept, mark))

    async def run(self) -> None:
        """Write what is waiting, every second, until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Write all that is waiting now, as far as the database takes it."""
        if self._waiting:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write_all)

    def _drop(self) -> None:
        self.dropped += 1
        AUDIT_DROPPED.inc()

    def _keeps(self, exchange: Exchange, mark: str | None) -> bool:
        """Whether the transcript is worth keeping, and may be kept.

        `mark` is the kind of trouble, if there is any: an hour keeps only so many of one kind.
        """
        if exchange.capture is None or exchange.snapshot is None:
            return False
        sampling, route = exchange.snapshot.sampling, exchange.route
        if mark is not None:
            hour = int(exchange.created_at.timestamp()) // 3600
            if hour > self._hour:  # one that began an hour ago may end after one that began now
                self._hour = hour
                self._kept.clear()
            self._kept[mark] += 1
            return self._kept[mark] <= sampling.failures_per_hour
        share = route.sample_calls if exchange.calls and route else sampling.sample_others
        return random.random() < share  # noqa: S311  no secret depends on it

    def _write_all(self) -> None:
        close_old_connections()
        while self._waiting:
            batch = [self._waiting[at] for at in range(min(_BATCH, len(self._waiting)))]
            try:
                self._write(batch)
            except (OperationalError, InterfaceError) as error:
                logger.warning("%d exchanges wait for the database: %s", self.waiting, error)
                return
            for _ in batch:
                self._waiting.popleft()

    def _write(self, batch: list[Entry]) -> None:
        """Save a batch; if the database refuses it, its entries one by one."""
        try:
            write(batch)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the audit must go on
            if len(batch) > 1:
                for entry in batch:
                    self._write([entry])
                return
            self._drop()
            # The error's own words may quote the row.
            fields = {"request_id": batch[0].exchange["request_id"]}
            logger.error(  # noqa: TRY400
                "a row cannot be stored: %s", type(error).__name__, extra={"fields": fields}
            )


@transaction.atomic
def write(batch: list[Entry]) -> None:
    """Save a batch: all of it or nothing."""
    groups = count_failures([(e.fingerprint, e.exchange) for e in batch if e.fingerprint])
    rows = models.Exchange.objects.bulk_create(
        models.Exchange(**entry.exchange, group=groups.get(entry.fingerprint or ""))
        for entry in batch
    )
    models.Transcript.objects.bulk_create(
        models.Transcript(exchange=row, **entry.transcript)
        for row, entry in zip(rows, batch, strict=True)
        if entry.transcript is not None
    )
    # Last: every process adds to the sums of this hour, and waits for whoever is at it.
    count_traffic(rows)
