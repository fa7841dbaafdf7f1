"""A journal's lines, read in order: as they are remembered, and from disk what is not.

Nearly every line is wanted a second after it was written, by the process that wrote it. So what
the newest lines say is remembered, within a bound; the file is for what does not fit, and for
whoever comes after the process. A place in the journal says which of the two has the next line.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proxy.audit.journal.entries import Entry, Line, decode, make_whole

_BATCH_LINES = 500
_BATCH_BYTES = 8 * 1024 * 1024
"""Of one batch; a transcript that is larger comes alone."""
_RECENT_BYTES = 16 * 1024 * 1024
# What is taken in memory, besides as much as the line of an exchange that has ended has.
_ROW_BYTES = 3 * 1024
_OTHER_BYTES = 512


class Place(NamedTuple):
    segment: int
    offset: int


class _Remembered(NamedTuple):
    begin: Place
    end: Place
    entry: Entry | None
    """None for lines of which only the dead's readers want to know."""
    size: int


class Recent:
    """What the newest lines say. One thread remembers, the other forgets, and neither waits."""

    def __init__(self) -> None:
        self._lines: deque[_Remembered] = deque()
        self._came = self._gone = 0  # bytes; each is changed by one thread alone
        self._is_full = False

    def remember(self, begin: Place, end: Place, entry: Entry | None) -> None:
        """What was written there says this; to be called before anybody is told of the end."""
        if self._is_full and self._lines:
            return  # one gap, and not many: what is read between two is a batch of its own
        size = _OTHER_BYTES if entry is None else _ROW_BYTES + end.offset - begin.offset
        self._is_full = self._came - self._gone + size > _RECENT_BYTES
        if not self._is_full:
            self._came += size
            self._lines.append(_Remembered(begin, end, entry, size))

    def recall(self, at: Place, end: Place) -> tuple[list[Line | None], Place]:
        """A batch of what was written from `at` on, and where it ends: there, if that is gone."""
        found: list[Line | None] = []
        stop = at.offset + _BATCH_BYTES
        for number in range(len(self._lines)):
            line = self._lines[number]
            if line.begin != at or line.end > end or len(found) == _BATCH_LINES:
                break
            if line.entry is not None:
                if found and line.end.offset > stop:
                    break
                found.append(line.entry)
            at = line.end
        return found, at

    def forget(self, at: Place) -> None:
        """What is before that place is done with."""
        while self._lines and self._lines[0].begin < at:
            self._gone += self._lines.popleft().size

    @property
    def oldest(self) -> Place | None:
        return self._lines[0].begin if self._lines else None


class Reader:
    """Reads a journal's lines in order, from where what was read is done with."""

    def __init__(self, folder: Path, first: int = 1, recent: Recent | None = None) -> None:
        self._folder = folder
        self._recent = recent or Recent()
        self.at = Place(first, 0)
        self.removed = 0
        """Bytes of the segments that were read to their end, and are gone."""
        self._shared: dict[str, bytes] = {}
        """Shared request parts of the version before, by digest; see `make_whole`."""

    def batches(self, end: Place) -> Iterator[list[Line | None]]:
        """What the lines up to `end` say, None for one that cannot be read.

        A batch is done with when the next one is asked for. Raises OSError.
        """
        while self.at < end:
            path = segment_path(self._folder, self.at.segment)
            size = path.stat().st_size  # raises if it is gone, whoever remembers what it had
            lines, after = self._recent.recall(self.at, end)
            if after == self.at:
                lines, after = self._read(path, min(end, self._recent.oldest or end))
            if lines:
                yield lines
            if after != self.at:
                self.at = after
            elif self.at.segment < end.segment:
                self.removed += size
                path.unlink()
                self.at = Place(self.at.segment + 1, 0)
            else:  # the rest is half a line: its process was killed, or the power was cut
                return
            self._recent.forget(self.at)

    def _read(self, path: Path, end: Place) -> tuple[list[Line | None], Place]:
        """A batch from disk, and where it ends."""
        segment, offset = self.at
        lines: list[Line | None] = []
        stop = offset + _BATCH_BYTES
        with path.open("rb") as file:
            file.seek(offset)
            while len(lines) < _BATCH_LINES and (line := file.readline()).endswith(b"\n"):
                after = offset + len(line)
                if (segment, after) > end or (lines and after > stop):
                    break
                lines.append(self._decode(line))
                offset = after
        return lines, Place(segment, offset)

    def _decode(self, line: bytes) -> Line | None:
        try:
            entry = decode(line)
        except ValueError:
            return None
        return make_whole(entry, self._shared) if isinstance(entry, Entry) else entry


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"{number:08}.jsonl"
