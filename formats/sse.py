"""Bytes ⇄ server-sent events.

The decoder follows the specification (comments, CR, LF and CRLF, several `data` lines, a byte order
mark) and differs from it once: an event that the end of input leaves without its blank line is
delivered, because upstreams close the connection right after `data: [DONE]`. Bytes are only joined
and cut at line ends, so a character may be split anywhere; that an event is UTF-8 is checked once
it is whole. An error is not raised here: it belongs behind the events that came before it, so that
no cut decides what is delivered.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

from formats.errors import DEFAULT_LIMITS, LimitExceeded, Limits, UpstreamError
from formats.upstream_errors import check_utf8

_BOM = b"\xef\xbb\xbf"
_LAST_WORDS = frozenset(
    (b"", b"data:[DONE]", b"event:message_stop", b'data:{"type":"message_stop"}')
)
_CR = ord("\r")  # a number is looked for in bytes several times as fast as bytes are
# A CR at the very end may be half of a line end.
_BLANK_LINE = re.compile(rb"\n\n|[\n\r]\r\n|[\n\r]\r(?=[^\n])")

ServerSentEvent: TypeAlias = tuple[bytes, bytes]
"""The `event` field, empty when the upstream sent none, and the data. A plain tuple: one is made
for every chunk, and a named one costs three times as much."""


class _SizeGuard:
    """How long the event is that has not ended, and which limit it exceeds first.

    The first, not the one that is noticed first: that would depend on the cuts.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.safe_bytes = min(limits.line_bytes, limits.event_bytes)
        """What is no longer than this exceeds nothing."""
        self.size = 0
        self._line = 0  # where the newest line began

    def add(self, data: bytes) -> LimitExceeded | None:
        """Take a part of an event; the limit that it exceeds."""
        before, line = self.size, self._line
        self.size += len(data)
        if end := data.rfind(b"\n") + 1:
            self._line = before + end
        return self._exceeded(data, before, line) if self.size > self.safe_bytes else None

    def begin(self, data: bytes) -> LimitExceeded | None:
        """Take the first part of another event."""
        self.size = self._line = 0
        return self.add(data)

    def _exceeded(self, data: bytes, before: int, line: int) -> LimitExceeded | None:
        longest, largest = self._limits.line_bytes, self._limits.event_bytes
        end = -1
        while end < len(data):
            end = data.find(b"\n", end + 1)
            end = len(data) if end < 0 else end
            if before + end - line > longest and line + longest <= largest:
                return LimitExceeded("line_bytes", longest)
            line = before + end + 1
        return LimitExceeded("event_bytes", largest) if self.size > largest else None


class EventDecoder:
    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.error: UpstreamError | None = None
        """Why what came behind the last events is none."""
        self.is_at_event_start = True
        """Whether what comes next begins an event."""
        self._parts: list[bytes] = []  # of the event whose blank line has not arrived
        self._guard = _SizeGuard(limits)
        self.safe_bytes = self._guard.safe_bytes
        """No limit is exceeded by an event that is no longer than this."""
        self._ends_in_lf = False
        self._ends_in_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that `data` completes."""
        size = len(data) - 2
        if (
            0 <= size <= self.safe_bytes  # a large one is not copied for this
            and data.find(b"\n") == size
            and data.endswith(b"\n\n")
            and data.startswith(b"data: ")
            and self.is_at_event_start
            and data.isascii()
            and _CR not in data
        ):  # one whole event, as nearly every read is where they come one by one
            self._at_start = False
            return [(b"", data[6:-2])]
        if _CR in data or self._ends_in_cr:
            data = self._line_feeds(data)
            self.is_at_event_start = False
        if not data:
            return []
        self._parts.append(data)
        self.is_at_event_start = False
        if b"\n\n" not in data and not (self._ends_in_lf and data.startswith(b"\n")):
            self._ends_in_lf = data.endswith(b"\n")
            self.error = self.error or self._guard.add(data)
            return []
        text = b"".join(self._parts)
        if self._at_start:
            text = text.removeprefix(_BOM)
            self._at_start = False
        *blocks, rest = text.split(b"\n\n")
        error: UpstreamError | None = None
        events: list[ServerSentEvent] = []
        if (  # each is one line, as they nearly always are
            text.count(b"\n") == 2 * len(blocks) + rest.count(b"\n")
            and max(map(len, blocks)) <= self.safe_bytes
        ):
            events = [(b"", block[6:]) for block in blocks if block.startswith(b"data: ")]
        if len(events) < len(blocks):
            events, error = self._read(blocks)
        if not text.isascii():
            events, error = _before_bad_utf8(events, error)
        self._parts = [rest] if rest else []
        self.is_at_event_start = not rest and not self._ends_in_cr
        self.error = self.error or error or self._guard.begin(rest)
        self._ends_in_lf = rest.endswith(b"\n")
        return events

    def _read(self, blocks: list[bytes]) -> tuple[list[ServerSentEvent], UpstreamError | None]:
        """The events of blocks of any form and length, before the first that is too long."""
        events: list[ServerSentEvent] = []
        for block in blocks:
            if len(block) > self.safe_bytes and (error := self._guard.begin(block)):
                return events, error
            if (event := _event(block)) is not None:
                events.append(event)
        return events, None

    def close(self) -> list[ServerSentEvent]:
        """The event that lacks only its line ends, if there is one."""
        return self.feed(b"\n\n")

    def _line_feeds(self, data: bytes) -> bytes:
        """`data` with every line end as LF. A CR at the very end waits: an LF may belong to it."""
        if self._ends_in_cr:
            data = b"\r" + data
        self._ends_in_cr = data.endswith(b"\r")
        return data.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _event(block: bytes) -> ServerSentEvent | None:
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.strip()
    return (name, b"\n".join(data)) if data else None


def _before_bad_utf8(
    events: list[ServerSentEvent], error: UpstreamError | None
) -> tuple[list[ServerSentEvent], UpstreamError | None]:
    """The events before the first that is not UTF-8, and why no more; else `error`."""
    for place, (_, data) in enumerate(events):
        try:
            check_utf8(data)
        except UpstreamError as unreadable_part:
            return events[:place], unreadable_part
    return events, error


class EventSplitter:
    """The bytes of a stream, cut only where an event ends."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._parts: list[bytes] = []  # of the event that has not ended
        self._guard = _SizeGuard(limits)
        self.held = 0
        """How many bytes these are."""

    def feed(self, data: bytes) -> bytes:
        """As much as whole events make up; all of it when an event is too long for its reader."""
        if self._parts:
            edge = self._parts[-1][-2:]
            self._parts.append(data)
            self.held += len(data)
            if not self._guard.add(_with_line_feeds(data)) and not _last_end(edge + data):
                return b""
            data = self.close()
        end = _last_end(data)
        if end == len(data) or self._guard.begin(_with_line_feeds(data[end:])):
            return data
        self._parts, self.held = [data[end:]], len(data) - end
        return data[:end]

    def close(self) -> bytes:
        """The rest."""
        rest, self._parts, self.held = b"".join(self._parts), [], 0
        return rest


def event_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each whole event begins and ends."""
    start = 0
    for found in _BLANK_LINE.finditer(data):
        yield start, found.end()
        start = found.end()


def repeated_end(data: bytes) -> bytes:
    """Of what stands behind the end of a message, all that only says so again; and comments."""
    spans = event_spans(data + b"\n\n")  # the last may lack its end
    events = [data[start:stop] for start, stop in spans]
    return b"".join([event for event in events if all(map(_is_mute, event.splitlines()))])


def _is_mute(line: bytes) -> bool:
    return line.startswith(b":") or line.replace(b" ", b"") in _LAST_WORDS


def _with_line_feeds(data: bytes) -> bytes:
    """Data of the same length in which every line ends in LF."""
    return data.replace(b"\r", b"\n") if b"\r" in data else data


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
