"""Recovers the journals of dead processes.

A journal that is not locked belongs to a dead process. Exchanges that had ended are stored as
usual; for those that had only started, a row says that the process was lost. Any process on the
machine may do this, and the lock lets only one. Rows that the database already has are not stored
twice.
"""

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proxy.audit.failure_groups import failure_fingerprint
from proxy.audit.journal.entries import DropEntry, EndEntry, StartEntry
from proxy.audit.journal.journal import (
    Journal,
    delete_journal,
    journal_size,
    last_write_time,
    lock_journal,
    segment_ends,
)
from proxy.audit.journal.reader import JournalReader
from proxy.errors import ErrorCode
from proxy.models import Outcome

logger = logging.getLogger("athena.audit")


def recover_dead_journals(own: Journal, store: Callable[[list[EndEntry]], None]) -> int:
    """Store and delete the journals of dead processes; raises OSError.

    Returns the number of bytes in the journals of other living processes.
    """
    size = 0
    for folder in sorted(own.root.iterdir()):
        if folder.name == own.name or folder.name.startswith("."):
            continue
        try:
            lock = lock_journal(folder)
        except OSError:  # its process lives, or another process has just recovered it
            size += journal_size(folder)
            continue
        try:
            recover_journal(folder, store)
        finally:
            os.close(lock)
    return size


def recover_journal(folder: Path, store: Callable[[list[EndEntry]], None]) -> None:
    """Store the entries of a journal, and delete it. If `store` raises, the journal is kept."""
    started: dict[str, dict[str, Any]] = {}
    ended = 0
    for end in segment_ends(folder):
        for batch in JournalReader(folder, end.segment).batches(end):
            entries = list[EndEntry]()
            for entry in batch:
                match entry:
                    case None:
                        logger.error("a line of a dead process's journal is unreadable")
                    case StartEntry():
                        started[entry.exchange["request_id"]] = entry.exchange
                    case DropEntry():
                        started.pop(entry.request_id, None)
                    case EndEntry():
                        started.pop(entry.exchange["request_id"], None)
                        entries.append(entry)
            store(entries)
            ended += len(entries)
    died_at = datetime.fromtimestamp(last_write_time(folder), UTC)
    store([crashed_entry(row, died_at) for row in started.values()])
    if ended or started:
        logger.warning(
            "recovered the journal of a dead process: %d exchanges had ended, %d had not",
            ended,
            len(started),
        )
    delete_journal(folder)


def crashed_entry(row: dict[str, Any], died_at: datetime) -> EndEntry:
    """The entry of an exchange that had only started when its process died."""
    row = {
        **row,
        "status": 0,
        "outcome": Outcome.CRASHED.value,
        "error_code": ErrorCode.WORKER_LOST.value,
        "error_source": "gateway",
        "error_phase": "",
        "error_message": "the gateway process died before the answer was complete",
        "upstream_model": "",
        "format": "",
        "duration_ms": max(0.0, (died_at - row["created_at"]).total_seconds() * 1000),
    }
    return EndEntry(row, failure_fingerprint(row))
