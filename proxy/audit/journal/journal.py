"""Journal of one process: exchanges on disk until the database has them.

Every process has a folder of its own, and keeps it locked while it lives. An entry is a line in a
segment file, written in one call: the start of an exchange with its row so far, or its end with
everything to store. A written line survives the process. It is not synced, so a power failure loses
the last seconds. The event loop writes, and the audit thread reads and deletes. Neither changes
the other's data, so neither waits.
"""

import errno
import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from proxy.audit.journal.entries import DropEntry, EndEntry, StartEntry, encode
from proxy.audit.journal.reader import EntryCache, JournalReader, Position, segment_path

_SEGMENT_BYTES = 4 * 1024 * 1024
_MIN_ROTATE_BYTES = 256 * 1024
"""Minimum size of a drained segment to be rotated while exchanges are open; these are rewritten."""
_TEST_WRITE_BYTES = 64 * 1024


class Journal:
    def __init__(self, root: Path, *, max_bytes: int) -> None:
        """`root`: the folder of all journals. `max_bytes`: limit for all of them together."""
        self.root = root
        self.name = ""
        self.other_journals_bytes = 0
        """Set by the recovery of other journals."""
        self._max_bytes = max_bytes
        self._lock: int | None = None
        self._file: int | None = None
        self._open_exchanges: dict[str, bytes] = {}
        """Lines of the exchanges that have not ended. Every new segment begins with them."""
        self.end = Position(0, 0)
        self._rotated_bytes = 0
        """Bytes of all earlier segments, including deleted ones."""
        self._cache = EntryCache()
        self.reader = JournalReader(root)

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    @property
    def size(self) -> int:
        return self._rotated_bytes + self.end.offset - self.reader.removed

    @property
    def is_full(self) -> bool:
        return self.is_open and self.size + self.other_journals_bytes >= self._max_bytes

    def open(self) -> None:
        """Create and lock the folder; raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.name = secrets.token_hex(8)
        # Recovery skips hidden folders: the folder is renamed only when it is locked.
        unlocked = self.root / f".{self.name}"
        unlocked.mkdir(mode=0o700)
        lock = lock_journal(unlocked)
        unlocked.rename(self.root / self.name)
        self._lock = lock
        self.end, self._rotated_bytes = Position(0, 0), 0
        self._cache = EntryCache()
        self.reader = JournalReader(self.root / self.name, cache=self._cache)
        self.rotate()

    def add_start(self, entry: StartEntry) -> None:
        """Write that an exchange has started; raises OSError."""
        line = encode(entry)
        self._open_exchanges[entry.exchange["request_id"]] = line
        if not self.is_full:
            self._append(line)

    def add_end(self, entry: EndEntry) -> bool:
        """Write that an exchange has ended; False if the journal is full. Raises OSError."""
        request_id = entry.exchange["request_id"]
        start = self._open_exchanges.pop(request_id, None)
        if not self.is_full:
            self._append(encode(entry), entry)
            return True
        if start is not None:
            self._append(encode(DropEntry(request_id)))
        return False

    def is_writable(self) -> bool:
        """Test whether the disk has room by writing a small file."""
        path = self.root / self.name / ".room"
        try:
            try:
                path.write_bytes(bytes(_TEST_WRITE_BYTES))
            finally:
                path.unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def rotate_if_drained(self) -> None:
        """Start a new segment if the reader is done with this one, so that it can be deleted."""
        size = self.end.offset
        if self.is_open and self.reader.at == self.end and size > 0:
            if not self._open_exchanges or size >= _MIN_ROTATE_BYTES:
                with suppress(OSError):
                    self.rotate()

    def rotate(self) -> None:
        """Start a new segment with the exchanges that are open; raises OSError."""
        path = segment_path(self.root / self.name, self.end.segment + 1)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            lines = b"".join(self._open_exchanges.values())
            _write(file, lines, at=0)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        if self._file is not None:
            os.close(self._file)
        self._rotated_bytes += self.end.offset
        self._file, segment = file, self.end.segment + 1
        self._set_end(Position(segment, 0), Position(segment, len(lines)), None)

    def close(self, *, is_lost: bool = False) -> None:
        """Release the folder for recovery, or delete it if it is lost or fully read."""
        if self._lock is None:
            return
        if is_lost or (self.reader.at == self.end and not self._open_exchanges):
            delete_journal(self.root / self.name)
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._lock = self._file = None

    def _append(self, line: bytes, entry: EndEntry | None = None) -> None:
        if self._lock is None:
            raise OSError(errno.ENOENT, "there is no journal")
        if self.end.offset >= _SEGMENT_BYTES or self._file is None:
            self.rotate()
        assert self._file is not None  # noqa: S101
        try:
            _write(self._file, line, at=self.end.offset)
        except OSError:
            # A line after half a line would be unreadable: the next line gets a new segment.
            if os.fstat(self._file).st_size != self.end.offset:
                os.close(self._file)
                self._file = None
            raise
        self._set_end(self.end, Position(self.end.segment, self.end.offset + len(line)), entry)

    def _set_end(self, begin: Position, end: Position, entry: EndEntry | None) -> None:
        if begin != end:
            self._cache.add(begin, end, entry)
        self.end = end  # last: the other thread reads up to here


def lock_journal(folder: Path) -> int:
    """Lock a journal until the descriptor is closed; raises OSError if it is locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def segment_ends(folder: Path) -> list[Position]:
    """The end of each segment, in order."""
    paths = folder.glob("*.jsonl")
    return sorted(Position(int(path.stem), path.stat().st_size) for path in paths)


def journal_size(folder: Path) -> int:
    """Size in bytes. The journal may be in use."""
    size = 0
    for path in folder.glob("*.jsonl"):
        with suppress(OSError):
            size += path.stat().st_size
    return size


def delete_journal(folder: Path) -> None:
    for path in folder.glob("*.jsonl"):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def last_write_time(folder: Path) -> float:
    """The latest time at which the journal's process was certainly alive."""
    return max((path.stat().st_mtime for path in folder.glob("*.jsonl")), default=0.0)


def _write(file: int, data: bytes, *, at: int) -> None:
    """Write all of the data or none; raises OSError."""
    if os.write(file, data) == len(data):
        return
    with suppress(OSError):
        os.ftruncate(file, at)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
