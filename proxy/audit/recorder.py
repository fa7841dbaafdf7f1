"""Records exchanges: each becomes a journal entry when it ends, and a database row soon after.

Sampling and redaction run on the event loop, but the transcript of a long exchange is built in a
thread, because hostile text takes long to redact. Another thread reads the journal every second and
writes batches to the database. While the database is unavailable, the journal grows up to its
limit; then entries are dropped and counted, and traffic goes on. If the disk fails, a few entries
are kept in memory. If the database rejects a row, only that row is dropped. No row is stored twice.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

from django.db import IntegrityError

from proxy.audit.bulk_insert import entries_not_stored, insert_batch
from proxy.audit.exchange import Exchange
from proxy.audit.exchange_row import accepted_row, ended_row
from proxy.audit.failure_groups import failure_fingerprint, leak_fingerprint
from proxy.audit.journal.entries import EndEntry, StartEntry, encode
from proxy.audit.journal.journal import Journal
from proxy.audit.journal.recovery import recover_dead_journals
from proxy.audit.sampling import TranscriptSampling
from proxy.audit.transcripts.assembly import transcript_of
from proxy.audit.transcripts.codec import pack
from proxy.database.connections import renew_connection
from proxy.database.outage import OUTAGE_ERRORS, safe_reason
from proxy.models import FAILURES
from proxy.telemetry.metrics import AUDIT_DROPPED

logger = logging.getLogger("athena.audit")

_WRITE_INTERVAL = 1.0
_STOP_TIMEOUT = 3.0
"""Seconds that `stop` waits for the database. Entries in the journal are not lost then."""
_RECOVERY_INTERVAL = 5.0
_WARNING_INTERVAL = 60.0
"""Seconds between two warnings with the same text."""
_MAX_MEMORY_BYTES = 16 * 1024 * 1024
_MEMORY_BATCH = 500
_NO_FOLDER = Path("/nonexistent")
_SHORT = 32 * 1024
"""Bytes of an exchange whose transcript is built on the event loop: at worst it takes 30 ms, and
usually a fraction of one, which is less than a change of threads."""
_MAX_BUILDING = 64


class AuditRecorder:
    def __init__(
        self, journal: Journal | None = None, *, after_write: Callable[[], None] = lambda: None
    ) -> None:
        """Without a journal, entries wait in memory only.

        `after_write` is called in the thread after each write, for writes of other components.
        """
        self.dropped = 0
        self.journal = journal or Journal(_NO_FOLDER, max_bytes=0)
        self.is_behind = False
        """True if the latest write did not reach the database."""
        self.is_disk_writable = True
        self._memory: deque[tuple[EndEntry, int]] = deque()
        # Counters of entries, and of bytes in memory. Only one thread changes each of the four.
        self._added = self._finished = 0
        self._memory_added = self._memory_freed = 0
        self._sampling = TranscriptSampling()
        self._is_journal_deleted = False
        self._recovered_at = -_RECOVERY_INTERVAL
        self._warned_at: dict[str, float] = {}
        self._after_write = after_write
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audit")
        self._building: set[asyncio.Task[None]] = set()
        self._builder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transcripts")

    @property
    def pending(self) -> int:
        """Number of entries that are not in the database yet."""
        return max(0, self._added - self._finished) + len(self._building)

    def open_journal(self) -> None:
        """Open the journal if the disk allows it."""
        if self.journal.root is _NO_FOLDER or self.journal.is_open:
            return
        try:
            self.journal.open()
            self.is_disk_writable = True
        except OSError as error:
            self._warn("the journal cannot be opened: %s", error.strerror)
            self.is_disk_writable = False

    def record_start(self, exchange: Exchange) -> None:
        """Record an accepted exchange, so that a crash of this process leaves a row."""
        if not self.journal.is_open:
            return
        try:
            self.journal.add_start(StartEntry(accepted_row(exchange)))
        except (OSError, ValueError):  # reported when the exchange ends
            return

    def record_end(self, exchange: Exchange, status: int) -> None:
        """Record an exchange that has ended. Probes and model lists are not recorded."""
        if exchange.request.snapshot is None and exchange.error is None:
            return
        row = ended_row(exchange, status)
        exchange.log(row)
        if exchange.request.snapshot is None:
            return
        fingerprint = failure_fingerprint(row) if row["outcome"] in FAILURES else None
        kind = fingerprint if fingerprint is not None else leak_fingerprint(row)
        if not self._sampling.keeps(exchange, kind):
            self.add(EndEntry(row, fingerprint))
        elif _is_short(exchange):
            self.add(EndEntry(row, fingerprint, _packed_transcript(exchange)))
        elif len(self._building) >= _MAX_BUILDING:
            self._warn("transcripts are left out: too many long ones at the same time")
            self.add(EndEntry(row, fingerprint))
        else:
            task = asyncio.create_task(self._add_with_transcript(exchange, row, fingerprint))
            self._building.add(task)
            task.add_done_callback(self._building.discard)

    async def _add_with_transcript(
        self, exchange: Exchange, row: dict[str, Any], fingerprint: str | None
    ) -> None:
        packed: bytes | None = None
        try:
            loop = asyncio.get_running_loop()
            packed = await loop.run_in_executor(self._builder, _packed_transcript, exchange)
        finally:  # also if the server stops
            self.add(EndEntry(row, fingerprint, packed))

    def add(self, entry: EndEntry) -> None:
        """Put an entry into the journal, or into memory if it cannot be written."""
        self._added += 1
        try:
            is_kept = self.journal.add_end(entry)
            self.is_disk_writable = True
        except OSError as error:
            if self.journal.is_open:
                self.is_disk_writable = False
                self._warn("the journal cannot be written: %s", error.strerror)
            is_kept = self._add_to_memory(entry)
        if not is_kept:
            self._added -= 1
            self._drop()
            self._warn("exchanges are dropped: too many wait for the database")

    def _add_to_memory(self, entry: EndEntry) -> bool:
        size = len(encode(entry))
        if self._memory_added - self._memory_freed + size > _MAX_MEMORY_BYTES:
            return False
        self._memory_added += size
        self._memory.append((entry, size))
        return True

    async def run(self) -> None:
        """Write pending entries every second, until cancelled."""
        while True:
            await asyncio.sleep(_WRITE_INTERVAL)
            await self.flush()
            if self._is_journal_deleted:
                self._replace_journal()
            self.open_journal()
            self._check_disk()
            self.journal.rotate_if_drained()

    def _check_disk(self) -> None:
        """Notice a disk that has room again, even without traffic."""
        if not self.is_disk_writable and self.journal.is_open:
            self.is_disk_writable = self.journal.is_writable()

    async def flush(self) -> None:
        """Write all pending entries, as far as the database accepts them."""
        if self._building:
            await asyncio.wait(self._building)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._write_all)

    async def stop(self) -> None:
        """Write pending entries if the database is up, and close the journal."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flush(), _STOP_TIMEOUT)
        for entry, _ in list(self._memory):  # the disk may have room by now
            try:
                self.journal.add_end(entry)
            except OSError:
                self._drop()
        self.journal.close()

    def _replace_journal(self) -> None:
        """Close a journal whose files were deleted; its entries are lost."""
        self._is_journal_deleted = False
        for _ in range(self.pending - len(self._memory)):
            self._finished += 1
            self._drop()
        self.journal.close(is_lost=True)

    def _drop(self) -> None:
        self.dropped += 1
        AUDIT_DROPPED.inc()

    def _warn(self, message: str, *values: object) -> None:
        """Log a warning, but not the same one again within a minute."""
        now = monotonic()
        if now - self._warned_at.get(message, -_WARNING_INTERVAL) >= _WARNING_INTERVAL:
            self._warned_at[message] = now
            logger.warning(message, *values)

    def _write_all(self) -> None:
        renew_connection()
        is_behind = True
        try:
            self._write_journal()
            self._write_memory()
            self._after_write()
            if self.journal.is_open and monotonic() - self._recovered_at >= _RECOVERY_INTERVAL:
                self.journal.other_journals_bytes = recover_dead_journals(
                    self.journal, self._insert
                )
                self._recovered_at = monotonic()
            is_behind = False
        except OUTAGE_ERRORS as error:
            self._warn("exchanges wait for the database: %s", safe_reason(error))
        except OSError as error:
            self._warn("a journal cannot be read: %s", error.strerror)
        except Exception:
            # The next run may succeed.
            logger.exception("writing the audit failed because of a defect")
        self.is_behind = is_behind

    def _write_journal(self) -> None:
        try:
            for batch in self.journal.reader.batches(self.journal.end):
                entries = [entry for entry in batch if isinstance(entry, EndEntry)]
                self._insert(entries)
                self._finished += len(entries)
                for _ in range(batch.count(None)):
                    self._drop()
                    logger.error("a line of the journal is unreadable; its exchange is lost")
        except FileNotFoundError:
            self._is_journal_deleted = True
            raise

    def _write_memory(self) -> None:
        while self._memory:
            batch = [self._memory[at] for at in range(min(_MEMORY_BATCH, len(self._memory)))]
            self._insert([entry for entry, _ in batch])
            for _, size in batch:
                self._memory.popleft()
                self._memory_freed += size
            self._finished += len(batch)

    def _insert(self, batch: list[EndEntry]) -> None:
        """Insert a batch; if the database rejects it, insert its entries one by one."""
        if not batch:
            return
        try:
            insert_batch(batch)
        except OUTAGE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001  the audit must go on
            self._insert_rejected(batch, error)

    def _insert_rejected(self, batch: list[EndEntry], error: Exception) -> None:
        if isinstance(error, IntegrityError):
            missing = entries_not_stored(batch)
            if len(missing) < len(batch):  # stored before, but the answer to the commit was lost
                self._insert(missing)
                return
        if len(batch) > 1:
            for entry in batch:
                self._insert([entry])
            return
        entry, name = batch[0], type(error).__name__
        if entry.packed is not None:
            # The transcript may be the reason. Store the row without it.
            logger.error("a transcript cannot be stored: %s", name)
            self._insert([EndEntry(entry.exchange, entry.fingerprint)])
        else:
            self._drop()
            # Without the error's message, which may quote the row.
            fields = {"request_id": entry.exchange["request_id"]}
            logger.error("a row cannot be stored: %s", name, extra={"fields": fields})


def _is_short(exchange: Exchange) -> bool:
    capture = exchange.capture
    return capture is None or (
        len(capture.request.data) + capture.raw.size + capture.sent.size <= _SHORT
    )


def _packed_transcript(exchange: Exchange) -> bytes | None:
    try:
        return pack(transcript_of(exchange))
    except Exception as error:  # noqa: BLE001  a defect costs only the transcript
        # The error's message and its traceback may have content.
        name = type(error).__name__
        logger.error("a transcript was lost because of a defect: %s", name)  # noqa: TRY400
        return None
