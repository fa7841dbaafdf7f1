"""Exchanges on disk, on their way to the database: lines in the segments of a directory.

Every process has a directory of its own, and holds it locked while it lives. A line is one write:
an exchange has begun, with its row so far, or has ended, with all that is to be stored. It is then
the system's, and outlives the process; nothing is synced, so that a power cut costs the last
seconds. The event loop's thread writes, the audit's reads and removes what is done with; neither
changes what the other owns, so that neither waits.
"""

import errno
import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from proxy.audit.journal.entries import Begun, Dropped, Entry, encode
from proxy.audit.journal.reader import Place, Reader, Recent, segment_path

_SEGMENT_BYTES = 4 * 1024 * 1024
_TIDY_BYTES = 256 * 1024
_ROOM_BYTES = 64 * 1024


class Journal:
    """The journal of this process."""

    def __init__(self, root: Path, *, most_bytes: int) -> None:
        self.root = root
        self.name = ""
        self.others = 0
        """Bytes of the other journals beside it; whoever looks at them sets it."""
        self._most_bytes = most_bytes
        self._lock: int | None = None
        self._file: int | None = None
        self._begun: dict[str, bytes] = {}
        """The lines of exchanges that are open: every segment has those that it is told of."""
        self.end = Place(0, 0)
        self._rotated = 0
        """Bytes of all segments before this one, whether they are still there or not."""
        self._recent = Recent()
        self.reader = Reader(root)

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    @property
    def size(self) -> int:
        return self._rotated + self.end.offset - self.reader.removed

    @property
    def is_full(self) -> bool:
        return self.is_open and self.size + self.others >= self._most_bytes

    def open(self) -> None:
        """Make the directory, and hold it; raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.name = secrets.token_hex(8)
        # Under a name that nobody looks at until it is locked.
        unlocked = self.root / f".{self.name}"
        unlocked.mkdir(mode=0o700)
        lock = hold(unlocked)
        unlocked.rename(self.root / self.name)
        self._lock = lock
        self.end, self._rotated = Place(0, 0), 0
        self._recent = Recent()
        self.reader = Reader(self.root / self.name, recent=self._recent)
        self.rotate()

    def begin(self, line: Begun) -> None:
        """Remember that an exchange has begun; raises OSError."""
        data = encode(line)
        self._begun[line.exchange["request_id"]] = data
        if not self.is_full:
            self._append(data)

    def end_of(self, entry: Entry) -> bool:
        """Remember how an exchange ended; False if there is no room. Raises OSError."""
        request_id = entry.exchange["request_id"]
        begun = self._begun.pop(request_id, None)
        if not self.is_full:
            self._append(encode(entry), entry)
            return True
        if begun is not None:
            self._append(encode(Dropped(request_id)))
        return False

    def is_writable(self) -> bool:
        """Whether the disk has room for a row or two."""
        path = self.root / self.name / ".room"
        try:
            try:
                path.write_bytes(bytes(_ROOM_BYTES))
            finally:
                path.unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def tidy(self) -> None:
        """Begin a new segment if all of this one is done with, so that it can go."""
        size = self.end.offset
        if self.is_open and self.reader.at == self.end and size > 0:
            if not self._begun or size >= _TIDY_BYTES:
                with suppress(OSError):
                    self.rotate()

    def rotate(self) -> None:
        """Begin a new segment, with the exchanges that are open; raises OSError."""
        path = segment_path(self.root / self.name, self.end.segment + 1)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            begun = b"".join(self._begun.values())
            _write(file, begun, at=0)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        if self._file is not None:
            os.close(self._file)
        self._rotated += self.end.offset
        self._file, segment = file, self.end.segment + 1
        self._extend(Place(segment, 0), Place(segment, len(begun)), None)

    def close(self, *, is_lost: bool = False) -> None:
        """Leave it to whoever finds it, or to nobody if it is lost or all of it is done with."""
        if self._lock is None:
            return
        if is_lost or (self.reader.at == self.end and not self._begun):
            remove(self.root / self.name)
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._lock = self._file = None

    def _open_segment(self) -> None:
        """Have a segment that takes another line; raises OSError."""
        if self._lock is None:
            raise OSError(errno.ENOENT, "there is no journal")
        if self.end.offset >= _SEGMENT_BYTES or self._file is None:
            self.rotate()

    def _append(self, data: bytes, entry: Entry | None = None) -> None:
        self._open_segment()
        assert self._file is not None  # noqa: S101
        try:
            _write(self._file, data, at=self.end.offset)
        except OSError:
            # Behind half a line, a whole one would be lost: the next gets a new segment.
            if os.fstat(self._file).st_size != self.end.offset:
                os.close(self._file)
                self._file = None
            raise
        self._extend(self.end, Place(self.end.segment, self.end.offset + len(data)), entry)

    def _extend(self, begin: Place, end: Place, entry: Entry | None) -> None:
        if begin != end:
            self._recent.remember(begin, end, entry)
        self.end = end  # last: from here on, the other thread reads it


def hold(folder: Path) -> int:
    """Lock a journal for as long as the descriptor is open; raises OSError if another has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def segments(folder: Path) -> list[Place]:
    """Where each of a journal's segments ends, in their order."""
    paths = folder.glob("*.jsonl")
    return sorted(Place(int(path.stem), path.stat().st_size) for path in paths)


def size_of(folder: Path) -> int:
    """How large a journal is; its process may be at it."""
    size = 0
    for path in folder.glob("*.jsonl"):
        with suppress(OSError):
            size += path.stat().st_size
    return size


def remove(folder: Path) -> None:
    """Delete a journal that is done with."""
    for path in folder.glob("*.jsonl"):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def last_write(folder: Path) -> float:
    """When its process was last seen alive."""
    return max((path.stat().st_mtime for path in folder.glob("*.jsonl")), default=0.0)


def _write(file: int, data: bytes, *, at: int) -> None:
    """Write all of it or nothing; raises OSError."""
    if os.write(file, data) == len(data):
        return
    with suppress(OSError):
        os.ftruncate(file, at)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
