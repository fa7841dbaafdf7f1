"""Server-sent events: decoder, splitter and encoder.

The decoder follows the specification (comments, CR, LF and CRLF, several `data` lines, a byte order
mark) with one exception: a last event without its blank line is delivered, because upstreams close
the connection right after `data: [DONE]`. Bytes are joined and split only at line ends, so a
character may be split anywhere; UTF-8 is checked once an event is complete. Errors are not raised
here but stored, to be reported after the events before them. So the result does not depend on how
the bytes were split.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

from formats.errors import DEFAULT_LIMITS, LimitExceeded, Limits, UpstreamError
from formats.upstream_errors import check_utf8

_BOM = b"\xef\xbb\xbf"
_CR = ord("\r")  # searching bytes for a number is several times faster than for bytes
# A CR at the very end may be the first half of a line end.
_BLANK_LINE = re.compile(rb"\n\n|[\n\r]\r\n|[\n\r]\r(?=[^\n])")

ServerSentEvent: TypeAlias = tuple[bytes, bytes]
"""The `event` field, empty if there is none, and the data. A plain tuple, because one is made for
every chunk, and a named tuple costs three times as much."""


class _SizeGuard:
    """Measures the unfinished event and finds the limit that it exceeds first.

    First by position in the data, so that the result does not depend on how the data was split.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.safe_bytes = min(limits.line_bytes, limits.event_bytes)
        """An event up to this size exceeds no limit."""
        self.size = 0
        self._line = 0  # where the newest line begins

    def add(self, data: bytes) -> LimitExceeded | None:
        """Add a part of the event; return the error if a limit is exceeded."""
        before, line = self.size, self._line
        self.size += len(data)
        if end := data.rfind(b"\n") + 1:
            self._line = before + end
        return self._exceeded(data, before, line) if self.size > self.safe_bytes else None

    def begin(self, data: bytes) -> LimitExceeded | None:
        """Start another event with its first part."""
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
        """The error after the last events, if there is one."""
        self.is_at_event_start = True
        """True if the next byte begins an event."""
        self.is_unusual = False
        """True if the stream has something that some clients read in another way: a byte order
        mark, a CR as a line end, an event without data, or a field besides `event` and `data`."""
        self._parts: list[bytes] = []  # of the unfinished event
        self._guard = _SizeGuard(limits)
        self.safe_bytes = self._guard.safe_bytes
        """An event up to this size exceeds no limit."""
        self._ends_in_lf = False
        self._ends_in_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that `data` completes."""
        size = len(data) - 2
        if (
            0 <= size <= self.safe_bytes
            and data.find(b"\n") == size
            and data.endswith(b"\n\n")
            and data.startswith(b"data: ")
            and self.is_at_event_start
            and (data.isascii() or _is_utf8(data))
            and _CR not in data
        ):  # fast path: one whole event of one line
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
            self._at_start = False
            if text.startswith(_BOM):
                text, self.is_unusual = text[len(_BOM) :], True
        *blocks, rest = text.split(b"\n\n")
        error: UpstreamError | None = None
        if (  # fast path: every event is one line
            text.count(b"\n") == 2 * len(blocks) + rest.count(b"\n")
            and max(map(len, blocks)) <= self.safe_bytes
        ):
            events = [
                event
                for block in blocks
                if (
                    event := (b"", block[6:]) if block.startswith(b"data: ") else self._event(block)
                )
            ]
        else:
            events, error = self._read(blocks)
        if not text.isascii():
            events, error = _before_bad_utf8(events, error)
        self._parts = [rest] if rest else []
        self.is_at_event_start = not rest and not self._ends_in_cr
        self.error = self.error or error or self._guard.begin(rest)
        self._ends_in_lf = rest.endswith(b"\n")
        return events

    def _read(self, blocks: list[bytes]) -> tuple[list[ServerSentEvent], UpstreamError | None]:
        """Return the events of these blocks up to the first that is too long, and its error."""
        events: list[ServerSentEvent] = []
        for block in blocks:
            if len(block) > self.safe_bytes and (error := self._guard.begin(block)):
                return events, error
            if (event := self._event(block)) is not None:
                events.append(event)
        return events, None

    def _event(self, block: bytes) -> ServerSentEvent | None:
        name = b""
        data: list[bytes] = []
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            elif field == b"event":
                name = value.removeprefix(b" ")
            elif field:
                self.is_unusual = True
        if data:
            return name, b"\n".join(data)
        self.is_unusual = self.is_unusual or bool(name)
        return None

    def close(self) -> list[ServerSentEvent]:
        """Return the last event, which may lack its blank line."""
        return self.feed(b"\n\n")

    def _line_feeds(self, data: bytes) -> bytes:
        """Convert line ends to LF. A CR at the very end is held: an LF may belong to it."""
        if self._ends_in_cr:
            data = b"\r" + data
        self._ends_in_cr = data.endswith(b"\r")
        data = data.removesuffix(b"\r").replace(b"\r\n", b"\n")
        if _CR not in data:
            return data
        self.is_unusual = True
        return data.replace(b"\r", b"\n")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _before_bad_utf8(
    events: list[ServerSentEvent], error: UpstreamError | None
) -> tuple[list[ServerSentEvent], UpstreamError | None]:
    """Return the events before the first that is not UTF-8, and its error; else all and `error`."""
    for index, (_, data) in enumerate(events):
        try:
            check_utf8(data)
        except UpstreamError as bad_utf8:
            return events[:index], bad_utf8
    return events, error


class EventSplitter:
    """Splits the bytes of a stream only at the ends of events."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._parts: list[bytes] = []  # of the unfinished event
        self._edge = b""  # its last bytes: a blank line may begin in several reads
        self._guard = _SizeGuard(limits)
        self.held = 0
        """Number of bytes of the unfinished event."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of whole events; everything if an event is too long for the decoder."""
        if self._parts:
            edge = self._edge + data
            self._parts.append(data)
            self.held += len(data)
            self._edge = edge[-2:]
            if not self._guard.add(_with_line_feeds(data)) and not _last_end(edge):
                return b""
            data = self.close()
        end = _last_end(data)
        if end == len(data) or self._guard.begin(_with_line_feeds(data[end:])):
            return data
        self._parts, self.held = [data[end:]], len(data) - end
        self._edge = data[end:][-2:]
        return data[:end]

    def close(self) -> bytes:
        """Return the bytes of the unfinished event."""
        data, self._parts, self.held = b"".join(self._parts), [], 0
        return data


def event_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each whole event."""
    start = 0
    for blank_line in _BLANK_LINE.finditer(data):
        yield start, blank_line.end()
        start = blank_line.end()


def _with_line_feeds(data: bytes) -> bytes:
    """Replace every CR by LF, which keeps the length."""
    return data.replace(b"\r", b"\n") if b"\r" in data else data


def _last_end(data: bytes) -> int:
    """Return the end of the last whole event; 0 if there is none."""
    if data.endswith(b"\n\n"):
        return len(data)
    if b"\r" not in data:
        return data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
    return max((blank_line.end() for blank_line in _BLANK_LINE.finditer(data)), default=0)


def encode_event(name: str, payload: bytes) -> bytes:
    """Encode a named event; `payload` is JSON without newlines."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), payload)
