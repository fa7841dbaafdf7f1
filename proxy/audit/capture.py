"""What one exchange said, while it says it: bounded, by reference, and nothing more.

Whether it is kept is decided at the end, so everything is captured at first; an append for every
read is all that it costs. What is captured is sorted when it is looked at, or when it gets long.
"""

from collections import deque
from itertools import chain
from time import perf_counter
from typing import TypeAlias

from formats import Event

_MOST_READS = 4000
"""Whose moments are captured; and of whose events, the first half and the last."""
_MOST_UNSORTED = 500

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
        self._raw = Clip(limit)
        self._arrivals: list[tuple[int, float]] = []
        self._events = Understood(limit)
        self._sent = Clip(limit)
        self._unsorted: list[tuple[bytes, list[Event], bytes, float]] = []
        self._room = limit // 2  # bytes that may still come unsorted

    @property
    def is_whole(self) -> bool:
        """Whether all that was said is here."""
        self._sort()
        is_here = self._raw.is_whole and self._sent.is_whole and not self._events.left_out
        return is_here and not self.request[2]

    @property
    def raw(self) -> Clip:
        self._sort()
        return self._raw

    @property
    def arrivals(self) -> list[tuple[int, float]]:
        """Of each read, the place in all that was received, and the milliseconds until it came."""
        self._sort()
        return self._arrivals

    @property
    def events(self) -> Understood:
        self._sort()
        return self._events

    @property
    def sent(self) -> Clip:
        self._sort()
        return self._sent

    def relayed(self, data: bytes, events: list[Event], part: bytes, came: float) -> None:
        """One read, from the one side to the other; `came` is a time of `perf_counter`."""
        self._unsorted.append((data, events, part, came))
        self._room -= len(data) + len(part)
        if self._room < 0 or len(self._unsorted) >= _MOST_UNSORTED:
            self._sort()

    def received(self, data: bytes) -> None:
        if self._unsorted:
            self._sort()
        self._receive(data, perf_counter())

    def understood(self, events: list[Event]) -> None:
        if self._unsorted:
            self._sort()
        self._events.add(events, self._raw.size)

    def again(self) -> None:
        """Another attempt begins: what the last one sent is no part of the answer."""
        self._sort()
        self._raw, self._arrivals, self._events = Clip(self.limit), [], Understood(self.limit)

    def _receive(self, data: bytes, came: float) -> None:
        if len(self._arrivals) < _MOST_READS:
            self._arrivals.append((self._raw.size, (came - self._started) * 1000))
        self._raw.add(data)

    def _sort(self) -> None:
        for data, events, part, came in self._unsorted:
            self._receive(data, came)
            if events:
                self._events.add(events, self._raw.size)
            if part:
                self._sent.add(part)
        self._unsorted.clear()
        self._room = self.limit // 2
