"""A way to the client of a running answer for what can be written without waiting.

ASGI's `send` is for tasks, and to wake one costs as much as to translate what a read has brought.
The server's protocol puts one into the state of every request, for whoever is told of data by
a callback. It frames as `send` does, and takes nothing while a write would have to wait: then it is
the task's turn.
"""

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

SHORTCUT = "shortcut"
"""In the state of a request: its shortcut."""


class Shortcut:
    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    @property
    def is_open(self) -> bool:
        """Whether the answer has begun, in chunks, and the client takes more of it."""
        cycle = self._cycle
        return cycle.chunked_encoding is True and not (
            cycle.flow.write_paused or cycle.disconnected
        )

    def write(self, part: bytes) -> None:
        self._cycle.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
