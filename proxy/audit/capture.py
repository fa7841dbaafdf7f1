"""What one exchange said, while it says it: bounded, by reference, and nothing more.

Whether it is kept is decided at the end, so everything is captured at first.
"""

from collections import deque
from itertools import chain
from time import perf_counter
from typing import TypeAlias

from formats import Event

_MOST_READS = 4000
"""Whose moments are captured; and of whose events, the first half and the last."""

Clipped: TypeAlias = tuple[bytes, int, int]
"""Head and tail in one, how long the head is, and how many bytes are missing between."""


def clip(data: bytes, limit: int) -> Clipped:
    half = limit // 2
    if len(data) <= 2 * half:
        return data, len(data), 0
    return data[:half] + data[-half:], half, len(data) - 2 * half


class Clip:
    """The head and the tail of a stream of bytes; what is between is counted and forgotten."""

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

    @property
    def is_whole(self) -> bool:
        return self.size <= 2 * self._half

    def take(self) -> Clipped:
        data = b"".join([*self._head, *self._tail])
        if self.is_whole:
            return data, len(data), 0
        return data[: self._half] + data[-self._half :], self._half, self.size - 2 * self._half


class Understood:
    """The events of the reads whose bytes a clip of the same limit keeps, but for a few."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head: list[list[Event]] = []
        self._tail: deque[tuple[int, list[Event]]] = deque(maxlen=_MOST_READS // 2)
        self._end = 0
        self.left_out = 0
        """How many reads' events are missing between head and tail."""

    def add(self, events: list[Event], end: int) -> None:
        """`end`: how many bytes had been received with them."""
        begin, self._end = self._end, end
        if begin < self._half and len(self._head) < _MOST_READS // 2:
            self._head.append(events)
            return
        tail = self._tail
        if len(tail) == tail.maxlen:
            self.left_out += 1
        tail.append((end, events))
        while tail[0][0] <= end - self._half:
            tail.popleft()
            self.left_out += 1

    def take(self) -> tuple[list[Event], list[Event]]:
        """The events of the head, and of the tail."""
        tail = [events for _, events in self._tail]
        return list(chain.from_iterable(self._head)), list(chain.from_iterable(tail))


class Capture:
    def __init__(self, request: bytes, limit: int) -> None:
        self.request = clip(request, limit)
        self.limit = limit
        self._started = perf_counter()
        self.raw = Clip(limit)
        self.arrivals: list[tuple[int, float]] = []
        """For each read: its offset in the received bytes, and the milliseconds until it came."""
        self.events = Understood(limit)
        self.sent = Clip(limit)

    @property
    def is_whole(self) -> bool:
        """Whether all that was said is here."""
        is_here = self.raw.is_whole and self.sent.is_whole and not self.events.left_out
        return is_here and not self.request[2]

    def received(self, data: bytes) -> None:
        if len(self.arrivals) < _MOST_READS:
            self.arrivals.append((self.raw.size, (perf_counter() - self._started) * 1000))
        self.raw.add(data)

    def understood(self, events: list[Event]) -> None:
        self.events.add(events, self.raw.size)

    def again(self) -> None:
        """Another attempt begins: what the last one sent is no part of the answer."""
        self.raw, self.arrivals, self.events = Clip(self.limit), [], Understood(self.limit)
