"""Bytes ⇄ server-sent events.

The decoder follows the specification (comments, CR, LF and CRLF, several `data` lines, a byte order
mark) and differs from it once: an event that the end of input leaves without its blank line is
delivered, because upstreams close the connection right after `data: [DONE]`. Bytes are only joined
and cut at line ends, never decoded, so a character may be split anywhere.
"""

from typing import NamedTuple

from formats.errors import DEFAULT_LIMITS, LimitExceeded, Limits

_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    name: bytes
    """The `event` field; empty when the upstream sent none."""
    data: bytes


class EventDecoder:
    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limit = limits.event_bytes
        self._line: list[bytes] = []  # the parts of a line whose end has not arrived
        self._size = 0  # of that line and of the event that is open
        self._name = b""
        self._data: list[bytes] = []
        self._at_start = True

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that `data` completes."""
        self._size += len(data)
        if b"\n" not in data and b"\r" not in data and not self._ends_in_cr():
            if data:
                self._line.append(data)
            self._check()
            return []
        lines = self._split(data)
        size = sum(map(len, self._data))
        events: list[ServerSentEvent] = []
        for line in lines:
            if line:
                size += len(line)
                if size > self._limit:
                    raise LimitExceeded("event_bytes", self._limit)
                if line.startswith(b"data:"):
                    self._data.append(line[6:] if line[5:6] == b" " else line[5:])
                elif line.startswith(b"event:"):
                    self._name = line[6:].strip()
                elif line == b"data":
                    self._data.append(b"")
            else:
                if self._data:
                    events.append(ServerSentEvent(self._name, b"\n".join(self._data)))
                    self._data = []
                self._name = b""
                size = 0
        self._size = size + sum(map(len, self._line))
        self._check()
        return events

    def close(self) -> list[ServerSentEvent]:
        """The event that lacks only its line ends, if there is one."""
        return self.feed(b"\n\n")

    def _ends_in_cr(self) -> bool:
        return bool(self._line) and self._line[-1].endswith(b"\r")

    def _split(self, data: bytes) -> list[bytes]:
        """The complete lines; the rest is kept. A CR at the very end waits for its LF."""
        text = b"".join((*self._line, data))
        if self._at_start:
            text = text.removeprefix(_BOM)
            self._at_start = False
        held = b""
        if b"\r" in text:
            held = b"\r" if text.endswith(b"\r") else b""
            text = text.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        rest += held
        self._line = [rest] if rest else []
        return lines

    def _check(self) -> None:
        if self._size > self._limit:
            raise LimitExceeded("event_bytes", self._limit)


def encode_event(name: str, payload: bytes) -> bytes:
    """One named event; `payload` is JSON, so it has no line end."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), payload)
