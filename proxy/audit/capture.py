"""Collects the content of one exchange in memory, up to a limit.

Sampling decides only at the end of an exchange whether its transcript is kept, so every exchange is
captured, and most captures are discarded unseen. Therefore a read is only put into a list. Reads
are clipped when the transcript is built, or when there are many.
"""

from collections import deque
from itertools import chain
from time import perf_counter
from typing import NamedTuple

from formats import Event

_MAX_READS = 4000
"""Maximum of reads with a recorded arrival. Events are kept of half as many at each end."""
_MAX_UNCLIPPED_READS = 500


class Clipped(NamedTuple):
    data: bytes
    """Head and tail, joined."""
    head: int
    """Length of the head."""
    missing: int
    """Number of bytes left out after the head."""


def clip(data: bytes, limit: int) -> Clipped:
    half = limit // 2
    if len(data) <= 2 * half:
        return Clipped(data, len(data), 0)
    return Clipped(data[:half] + data[-half:], half, len(data) - 2 * half)


class ClippedBytes:
    """Keeps the head and the tail of a stream of bytes, and counts the bytes between."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        if self.size < self._half:
            self._head.append(data)
        else:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= self._half:
                self._tail_size -= len(self._tail.popleft())
        self.size += len(data)

    def get(self) -> Clipped:
        data = b"".join([*self._head, *self._tail])
        missing = self.size - 2 * self._half
        if missing <= 0:
            return Clipped(data, len(data), 0)
        return Clipped(data[: self._half] + data[-self._half :], self._half, missing)


class ClippedEvents:
    """Keeps the events of those reads whose bytes `ClippedBytes` keeps."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head: list[list[Event]] = []
        self._tail: deque[tuple[int, list[Event]]] = deque(maxlen=_MAX_READS // 2)
        self._end = 0
        self.left_out = 0
        """Number of reads between head and tail whose events are missing."""

    def add(self, events: list[Event], end: int) -> None:
        """`end`: number of bytes received up to these events."""
        begin, self._end = self._end, end
        if begin < self._half and len(self._head) < _MAX_READS // 2:
            self._head.append(events)
            return
        tail = self._tail
        if len(tail) == tail.maxlen:
            self.left_out += 1
        tail.append((end, events))
        while tail[0][0] <= end - self._half:
            tail.popleft()
            self.left_out += 1

    def get(self) -> tuple[list[Event], list[Event]]:
        """The events of the head, and of the tail."""
        tail = [events for _, events in self._tail]
        return list(chain.from_iterable(self._head)), list(chain.from_iterable(tail))


class Capture:
    def __init__(self, request: bytes, limit: int) -> None:
        self.request = clip(request, limit)
        self.limit = limit
        self._started = perf_counter()
        self._raw = ClippedBytes(limit)
        self._arrivals: list[tuple[int, float]] = []
        self._events = ClippedEvents(limit)
        self._unclipped: list[tuple[bytes, list[Event], float]] = []
        self._unclipped_bytes = 0
        self.sent = ClippedBytes(limit)
        """The answer to the client."""

    @property
    def raw(self) -> ClippedBytes:
        """The upstream's answer."""
        self._clip_reads()
        return self._raw

    @property
    def arrivals(self) -> list[tuple[int, float]]:
        """For each read: its offset in the upstream's answer, and milliseconds since the start."""
        self._clip_reads()
        return self._arrivals

    @property
    def events(self) -> ClippedEvents:
        self._clip_reads()
        return self._events

    def add_read(self, data: bytes, events: list[Event], at: float) -> None:
        """`at`: time of `perf_counter`. Either of the others may be empty."""
        unclipped = self._unclipped
        unclipped.append((data, events, at))
        self._unclipped_bytes += len(data)
        if self._unclipped_bytes > self.limit or len(unclipped) >= _MAX_UNCLIPPED_READS:
            self._clip_reads()

    def discard_answer(self) -> None:
        """Discard the answer of a failed attempt: the client gets the answer of the next one."""
        self._unclipped, self._unclipped_bytes = [], 0
        self._raw, self._arrivals = ClippedBytes(self.limit), []
        self._events = ClippedEvents(self.limit)

    def _clip_reads(self) -> None:
        raw, arrivals = self._raw, self._arrivals
        for data, events, at in self._unclipped:
            if data:
                if len(arrivals) < _MAX_READS:
                    arrivals.append((raw.size, (at - self._started) * 1000))
                raw.add(data)
            if events:
                self._events.add(events, raw.size)
        self._unclipped, self._unclipped_bytes = [], 0
