"""Exchanges → rows, in batches, off the hot path.

What is to be kept is decided and redacted when an exchange ends, and goes into the journal; a
thread reads it there a moment later and writes to the database. When the database is away, the
journal grows up to its limit, then rows are dropped and counted, and traffic goes on. When the disk
takes nothing, a little is kept in memory. A row that the database refuses is dropped alone, and one
that it has already is not written twice.
"""

import asyncio
import contextlib
import logging
import random
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

from django.db import IntegrityError

from proxy.audit.bulk_insert import missing_of, write
from proxy.audit.exchange import Exchange
from proxy.audit.failure_groups import fingerprint, leak_mark
from proxy.audit.journal.entries import Begun, Entry, encode
from proxy.audit.journal.journal import Journal
from proxy.audit.journal.recovery import salvage
from proxy.audit.row import accepted_row, ended_row
from proxy.audit.transcripts.assembly import transcript_of
from proxy.audit.transcripts.codec import pack
from proxy.database.connections import renew_connection
from proxy.database.outage import AWAY, reason
from proxy.models import FAILURES
from proxy.telemetry.metrics import AUDIT_DROPPED

logger = logging.getLogger("athena.audit")

_INTERVAL = 1.0
_LAST_FLUSH = 3.0
"""Seconds that the end waits for the database: what is in the journal then is not lost."""
_LOOK_FOR_DEAD = 5.0
_SELDOM = 60.0
"""Seconds between two lines about one trouble."""
_MEMORY_BYTES = 16 * 1024 * 1024
_NOWHERE = Path("/nonexistent")


class Audit:
    def __init__(
        self, journal: Journal | None = None, *, also: Callable[[], None] = lambda: None
    ) -> None:
        """Without a journal, what waits is in memory alone. `also` writes what else there is."""
        self.dropped = 0
        self.journal = journal or Journal(_NOWHERE, most_bytes=0)
        self.is_behind = False
        """Whether something that there was did not reach the database."""
        self.has_disk = True
        self._memory: deque[tuple[Entry, int]] = deque()
        # Of entries, those that came and those that are done with; of the memory's, their bytes.
        # Each of the four is changed by one thread alone.
        self._submitted = self._settled = 0
        self._remembered = self._forgotten = 0
        self._kept: Counter[str] = Counter()  # transcripts of each kind of trouble in this hour
        self._hour = 0
        self._is_gone = False
        self._looked_at = -_LOOK_FOR_DEAD
        self._said: dict[str, float] = {}
        self._also = also
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audit")

    @property
    def waiting(self) -> int:
        return max(0, self._submitted - self._settled)

    def start(self) -> None:
        """Open the journal, if the disk allows it."""
        if self.journal.root is _NOWHERE or self.journal.is_open:
            return
        try:
            self.journal.open()
            self.has_disk = True
        except OSError as error:
            self._complain("the journal cannot be opened: %s", error.strerror)
            self.has_disk = False

    def begin(self, exchange: Exchange) -> None:
        """Remember an exchange that has been accepted, should this process be lost."""
        if not self.journal.is_open:
            return
        try:
            self.journal.begin(Begun(accepted_row(exchange)))
        except (OSError, ValueError):  # its end will say the same
            return

    def submit(self, exchange: Exchange, status: int) -> None:
        """Remember an exchange that has ended; probes and lists of models are none."""
        if exchange.request.snapshot is None and exchange.error is None:
            return
        row = ended_row(exchange, status)
        exchange.log(row)
        if exchange.request.snapshot is None:
            return
        mark = fingerprint(row) if row["outcome"] in FAILURES else None
        packed: bytes | None = None
        if self._keeps(exchange, leak_mark(row) if mark is None else mark):
            try:
                packed = pack(transcript_of(exchange))
            except Exception as error:  # noqa: BLE001  a defect there costs the transcript alone
                # Without its words and its frames, which may have the content.
                name = type(error).__name__
                logger.error("no transcript, a defect: %s", name)  # noqa: TRY400
        self.keep(Entry(row, mark, packed))

    def keep(self, entry: Entry) -> None:
        """Put an entry where the thread finds it."""
        self._submitted += 1
        try:
            is_kept = self.journal.end_of(entry)
            self.has_disk = True
        except OSError as error:
            if self.journal.is_open:
                self.has_disk = False
                self._complain("the journal cannot be written: %s", error.strerror)
            size = len(encode(entry))
            is_kept = self._remembered - self._forgotten + size <= _MEMORY_BYTES
            if is_kept:
                self._remembered += size
                self._memory.append((entry, size))
        if not is_kept:
            self._submitted -= 1
            self._drop()
            self._complain("too much waits for the database: exchanges are dropped")

    async def run(self) -> None:
        """Write what is waiting, every second, until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await self.flush()
            if self._is_gone:
                self._begin_anew()
            self.start()
            self._try_disk()
            self.journal.tidy()

    def _try_disk(self) -> None:
        """Find out whether a disk that took nothing does now, though nobody asks for anything."""
        if not self.has_disk and self.journal.is_open:
            self.has_disk = self.journal.is_writable()

    async def flush(self) -> None:
        """Write all that is waiting now, as far as the database takes it."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._write_all)

    async def stop(self) -> None:
        """Write what is waiting if that can be done now, and leave the journal."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flush(), _LAST_FLUSH)
        for entry, _ in list(self._memory):  # the disk may have room by now
            try:
                self.journal.end_of(entry)
            except OSError:
                self._drop()
        self.journal.close()

    def _begin_anew(self) -> None:
        """With another journal: somebody deleted this one, and with it what it had."""
        self._is_gone = False
        for _ in range(self.waiting - len(self._memory)):
            self._settled += 1
            self._drop()
        self.journal.close(is_lost=True)

    def _drop(self) -> None:
        self.dropped += 1
        AUDIT_DROPPED.inc()

    def _complain(self, words: str, *values: object) -> None:
        """Say it, unless it was said a moment ago."""
        now = monotonic()
        if now - self._said.get(words, -_SELDOM) >= _SELDOM:
            self._said[words] = now
            logger.warning(words, *values)

    def _keeps(self, exchange: Exchange, mark: str | None) -> bool:
        """Whether the transcript is worth keeping, and may be kept.

        `mark` is the kind of trouble, if there is any: an hour keeps only so many of one kind.
        """
        if exchange.capture is None or exchange.request.snapshot is None:
            return False
        sampling, route = exchange.request.snapshot.sampling, exchange.answer.route
        if mark is not None:
            hour = int(exchange.request.created_at.timestamp()) // 3600
            if hour > self._hour:  # one that began an hour ago may end after one that began now
                self._hour = hour
                self._kept.clear()
            self._kept[mark] += 1
            return self._kept[mark] <= sampling.failures_per_hour
        share = (
            route.sample_calls if exchange.answer.tool_calls and route else sampling.sample_others
        )
        return random.random() < share  # noqa: S311  no secret depends on it

    def _write_all(self) -> None:
        renew_connection()
        is_behind = True  # whatever the reason is why something stays where it is
        try:
            self._write_journal()
            self._write_memory()
            self._also()
            if self.journal.is_open and monotonic() - self._looked_at >= _LOOK_FOR_DEAD:
                self.journal.others = salvage(self.journal, self._write)
                self._looked_at = monotonic()
            is_behind = False
        except AWAY as error:
            self._complain("exchanges wait for the database: %s", reason(error))
        except OSError as error:
            self._complain("a journal cannot be read: %s", error.strerror)
        except Exception:
            # It must not end the audit: the next time may do.
            logger.exception("the audit has a defect")
        self.is_behind = is_behind

    def _write_journal(self) -> None:
        try:
            for lines in self.journal.reader.batches(self.journal.end):
                entries = [line for line in lines if isinstance(line, Entry)]
                self._write(entries)
                self._settled += len(entries)
                for _ in range(lines.count(None)):
                    self._drop()
                    logger.error("a line of the journal cannot be read")
        except FileNotFoundError:
            self._is_gone = True
            raise

    def _write_memory(self) -> None:
        while lines := [self._memory[at] for at in range(min(500, len(self._memory)))]:
            self._write([entry for entry, _ in lines])
            for _, size in lines:
                self._memory.popleft()
                self._forgotten += size
            self._settled += len(lines)

    def _write(self, batch: list[Entry]) -> None:
        """Save a batch; if the database refuses it, its entries one by one."""
        if not batch:
            return
        try:
            write(batch)
        except AWAY:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the audit must go on
            if isinstance(error, IntegrityError) and len(missing := missing_of(batch)) < len(batch):
                self._write(missing)
            elif len(batch) > 1:
                for entry in batch:
                    self._write([entry])
            elif (entry := batch[0]).packed is not None:
                # It may be what was said that is refused: that must not cost the row.
                logger.error("a transcript cannot be stored: %s", type(error).__name__)  # noqa: TRY400
                self._write([Entry(entry.exchange, entry.fingerprint)])
            else:
                self._drop()
                # The error's own words may quote the row.
                fields = {"request_id": batch[0].exchange["request_id"]}
                name = type(error).__name__
                logger.error("a row cannot be stored: %s", name, extra={"fields": fields})  # noqa: TRY400
