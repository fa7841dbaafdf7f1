"""Reads the entries of a journal in order, from memory if possible, otherwise from disk.

Nearly every entry is read a second after it was written, by the process that wrote it. So the
newest entries are cached in memory, up to a limit. The files are for entries that do not fit, and
for recovery after a crash. The position in the journal decides which of the two has the next entry.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proxy.audit.journal.entries import EndEntry, JournalEntry, decode, make_whole

_BATCH_ENTRIES = 500
_BATCH_BYTES = 8 * 1024 * 1024
"""Limit for one batch. An entry over the limit is a batch of its own."""
_CACHE_BYTES = 16 * 1024 * 1024
# Estimated memory per entry: for an end entry, this much more than its line.
_ROW_BYTES = 3 * 1024
_OTHER_BYTES = 512


class Position(NamedTuple):
    segment: int
    offset: int


class _CachedEntry(NamedTuple):
    begin: Position
    end: Position
    entry: EndEntry | None
    """None for start and drop entries, which only recovery needs."""
    size: int


class EntryCache:
    """The newest entries. One thread adds and another removes, without locks."""

    def __init__(self) -> None:
        self._entries: deque[_CachedEntry] = deque()
        self._added = self._removed = 0  # bytes; only one thread changes each
        self._is_full = False

    def add(self, begin: Position, end: Position, entry: EndEntry | None) -> None:
        """Call it before the reader learns about `end`."""
        if self._is_full and self._entries:
            return  # one long gap instead of many: entries between two gaps would be small batches
        size = _OTHER_BYTES if entry is None else _ROW_BYTES + end.offset - begin.offset
        self._is_full = self._added - self._removed + size > _CACHE_BYTES
        if not self._is_full:
            self._added += size
            self._entries.append(_CachedEntry(begin, end, entry, size))

    def get_batch(self, at: Position, end: Position) -> tuple[list[JournalEntry | None], Position]:
        """A batch of entries from `at` on, and its end: `at` if these are not cached."""
        batch: list[JournalEntry | None] = []
        limit = at.offset + _BATCH_BYTES
        for number in range(len(self._entries)):
            cached = self._entries[number]
            if cached.begin != at or cached.end > end or len(batch) == _BATCH_ENTRIES:
                break
            if cached.entry is not None:
                if batch and cached.end.offset > limit:
                    break
                batch.append(cached.entry)
            at = cached.end
        return batch, at

    def remove_before(self, position: Position) -> None:
        while self._entries and self._entries[0].begin < position:
            self._removed += self._entries.popleft().size

    @property
    def oldest(self) -> Position | None:
        return self._entries[0].begin if self._entries else None


class JournalReader:
    def __init__(self, folder: Path, first: int = 1, cache: EntryCache | None = None) -> None:
        """`first`: number of the segment to start with."""
        self._folder = folder
        self._cache = cache or EntryCache()
        self.at = Position(first, 0)
        """End of the entries that are done."""
        self.removed = 0
        """Bytes of the segments that were read to their end and deleted."""
        self._shared: dict[str, bytes] = {}
        """Shared request parts of the previous version, by digest; see `make_whole`."""

    def batches(self, end: Position) -> Iterator[list[JournalEntry | None]]:
        """Yield the entries up to `end` in batches, None for an unreadable line; raises OSError.

        A batch counts as done when the next one is asked for.
        """
        while self.at < end:
            path = segment_path(self._folder, self.at.segment)
            size = path.stat().st_size  # raises if the file was deleted, even if all is cached
            batch, after = self._cache.get_batch(self.at, end)
            if after == self.at:
                batch, after = self._read(path, min(end, self._cache.oldest or end))
            if batch:
                yield batch
            if after != self.at:
                self.at = after
            elif self.at.segment < end.segment:
                self.removed += size
                path.unlink()
                self.at = Position(self.at.segment + 1, 0)
            else:  # the rest is half a line: the process was killed, or the power failed
                return
            self._cache.remove_before(self.at)

    def _read(self, path: Path, end: Position) -> tuple[list[JournalEntry | None], Position]:
        """A batch from disk, and where it ends."""
        segment, offset = self.at
        batch: list[JournalEntry | None] = []
        limit = offset + _BATCH_BYTES
        with path.open("rb") as file:
            file.seek(offset)
            while len(batch) < _BATCH_ENTRIES and (line := file.readline()).endswith(b"\n"):
                after = offset + len(line)
                if (segment, after) > end or (batch and after > limit):
                    break
                batch.append(self._decode(line))
                offset = after
        return batch, Position(segment, offset)

    def _decode(self, line: bytes) -> JournalEntry | None:
        try:
            entry = decode(line)
        except ValueError:
            return None
        return make_whole(entry, self._shared) if isinstance(entry, EndEntry) else entry


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"{number:08}.jsonl"
