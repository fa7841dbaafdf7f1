"""What a dead process leaves behind: its journal → rows.

A journal that nobody holds locked is a dead process's. What had ended goes to the database as it
would have; what had only begun becomes a row that says so. Any process beside it may do this, one
does, and what the database has already it does not get twice.
"""

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proxy.audit.failure_groups import fingerprint
from proxy.audit.journal.entries import Begun, Dropped, Entry
from proxy.audit.journal.journal import Journal, hold, last_write, remove, segments, size_of
from proxy.audit.journal.reader import Reader
from proxy.errors import ErrorCode
from proxy.models import Outcome

logger = logging.getLogger("athena.audit")


def salvage(own: Journal, store: Callable[[list[Entry]], None]) -> int:
    """Adopt every journal of the dead; how many bytes those of the living have. Raises OSError."""
    size = 0
    for folder in sorted(own.root.iterdir()):
        if folder.name == own.name or folder.name.startswith("."):
            continue
        try:
            lock = hold(folder)
        except OSError:  # its process lives; or another was faster, and it is gone
            size += size_of(folder)
            continue
        try:
            adopt(folder, store)
        finally:
            os.close(lock)
    return size


def adopt(folder: Path, store: Callable[[list[Entry]], None]) -> None:
    """Store what a journal has, and delete it; whatever `store` raises leaves it as it is."""
    begun: dict[str, dict[str, Any]] = {}
    ended = 0
    for end in segments(folder):
        for lines in Reader(folder, end.segment).batches(end):
            entries = list[Entry]()
            for line in lines:
                match line:
                    case None:
                        logger.error("a line of a dead process's journal cannot be read")
                    case Begun():
                        begun[line.exchange["request_id"]] = line.exchange
                    case Dropped():
                        begun.pop(line.request_id, None)
                    case Entry():
                        begun.pop(line.exchange["request_id"], None)
                        entries.append(line)
            store(entries)
            ended += len(entries)
    seen = datetime.fromtimestamp(last_write(folder), UTC)
    store([crashed(row, seen) for row in begun.values()])
    if ended or begun:
        logger.warning(
            "a process left its journal: %d exchanges in it had ended, %d had not",
            ended,
            len(begun),
        )
    remove(folder)


def crashed(row: dict[str, Any], seen: datetime) -> Entry:
    """The row of an exchange that was lost with its process, which was last seen alive then."""
    row = {
        **row,
        "status": 0,
        "outcome": Outcome.CRASHED.value,
        "error_code": ErrorCode.WORKER_LOST.value,
        "error_source": "gateway",
        "error_phase": "",
        "error_message": "the process was lost before the answer was complete",
        "upstream_model": "",
        "format": "",
        "duration_ms": max(0.0, (seen - row["created_at"]).total_seconds() * 1000),
    }
    return Entry(row, fingerprint(row))
