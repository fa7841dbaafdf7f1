"""Writes to a client from a callback, without waking the request's task.

ASGI's `send` needs a task, and waking one costs as much as translating a read. The server's
protocol puts a writer into the state of every request. It frames like `send`. While a write
would have to wait for the client, the writer is closed, and the request's task must send.
"""

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

DIRECT_WRITER = "direct_writer"
"""Key in a request's state: its DirectWriter."""


class DirectWriter:
    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    @property
    def is_open(self) -> bool:
        """True if a chunked response has started and the client is reading it."""
        cycle = self._cycle
        return cycle.chunked_encoding is True and not (
            cycle.flow.write_paused or cycle.disconnected
        )

    def write(self, part: bytes) -> None:
        self._cycle.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
