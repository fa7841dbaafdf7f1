"""Bytes ⇄ server-sent events.

The decoder follows the specification (comments, CR, LF and CRLF, several `data` lines, a byte order
mark) and differs from it once: an event that the end of input leaves without its blank line is
delivered, because upstreams close the connection right after `data: [DONE]`. Bytes are only joined
and cut at line ends, never decoded, so a character may be split anywhere.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

from formats.errors import DEFAULT_LIMITS, LimitExceeded, Limits

_BOM = b"\xef\xbb\xbf"
# A CR at the very end may be half of a line end.
_BLANK_LINE = re.compile(rb"\n\n|[\n\r]\r\n|[\n\r]\r(?=[^\n])")

ServerSentEvent: TypeAlias = tuple[bytes, bytes]
"""The `event` field, empty when the upstream sent none, and the data. A plain tuple: one is made
for every chunk, and a named one costs three times as much."""


class EventDecoder:
    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limit = limits.event_bytes
        self._parts: list[bytes] = []  # of the event whose blank line has not arrived
        self._size = 0
        self._ends_in_lf = False
        self._ends_in_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that `data` completes."""
        if b"\r" in data or self._ends_in_cr:
            data = self._line_feeds(data)
        if not data:
            return []
        self._parts.append(data)
        self._size += len(data)
        if b"\n\n" not in data and not (self._ends_in_lf and data.startswith(b"\n")):
            self._ends_in_lf = data.endswith(b"\n")
            self._check(self._size)
            return []
        text = b"".join(self._parts)
        if self._at_start:
            text = text.removeprefix(_BOM)
            self._at_start = False
        *blocks, rest = text.split(b"\n\n")
        events: list[ServerSentEvent] = []
        for block in blocks:
            if block.startswith(b"data: ") and b"\n" not in block and len(block) <= self._limit:
                events.append((b"", block[6:]))
            elif (event := self._event(block)) is not None:
                events.append(event)
        self._parts = [rest] if rest else []
        self._size = len(rest)
        self._ends_in_lf = rest.endswith(b"\n")
        self._check(self._size)
        return events

    def close(self) -> list[ServerSentEvent]:
        """The event that lacks only its line ends, if there is one."""
        return self.feed(b"\n\n")

    def _line_feeds(self, data: bytes) -> bytes:
        """`data` with every line end as LF. A CR at the very end waits: an LF may belong to it."""
        if self._ends_in_cr:
            data = b"\r" + data
        self._ends_in_cr = data.endswith(b"\r")
        return data.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _event(self, block: bytes) -> ServerSentEvent | None:
        self._check(len(block))
        name = b""
        data: list[bytes] = []
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            elif field == b"event":
                name = value.strip()
        return (name, b"\n".join(data)) if data else None

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise LimitExceeded("event_bytes", self._limit)


class WholeEvents:
    """The bytes of a stream, cut only where an event ends."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limit = limits.event_bytes
        self._parts: list[bytes] = []  # of the event that has not ended
        self.held = 0
        """How many bytes these are."""

    def feed(self, data: bytes) -> bytes:
        """As much as whole events make up; all of it when an event is too long for its reader."""
        if self._parts:
            edge = self._parts[-1][-2:]
            self._parts.append(data)
            self.held += len(data)
            if self.held <= self._limit and not _last_end(edge + data):
                return b""
            data = self.close()
        end = _last_end(data)
        if end == len(data) or len(data) - end > self._limit:
            return data
        self._parts, self.held = [data[end:]], len(data) - end
        return data[:end]

    def close(self) -> bytes:
        """The rest."""
        rest, self._parts, self.held = b"".join(self._parts), [], 0
        return rest


def event_places(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each whole event begins and ends."""
    start = 0
    for found in _BLANK_LINE.finditer(data):
        yield start, found.end()
        start = found.end()


def _last_end(data: bytes) -> int:
    """Where the last whole event ends; 0 if there is none."""
    if data.endswith(b"\n\n"):
        return len(data)
    if b"\r" not in data:
        return data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
    return max((found.end() for found in _BLANK_LINE.finditer(data)), default=0)


def encode_event(name: str, payload: bytes) -> bytes:
    """One named event; `payload` is JSON, so it has no line end."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), payload)
