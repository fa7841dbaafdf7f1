"""HTTP as the server reads and writes it: uvicorn's protocol, with the bounds that it lacks.

A request's head must come within a time and be of a size; a connection on which nothing is asked is
closed; and a client that takes nothing of its answer is let go. Trailers are refused: what comes
behind a body is no header, whatever it is called. What is refused here never reaches
the application: it is answered in a shape that clients of both dialects understand, and the
connection is closed, as nobody knows what follows on it. While an answer is under way nothing
else is written: then the connection ends without a word.

Nothing is done for each chunk of an answer: timers are set where a write would have to wait. What
an answer begins with is written with what follows at once: most short answers are one write.
The bounds come through the application's lifespan, because Django is not there yet when the server
imports this module.
"""

import fcntl
import logging
import secrets
import socket
import struct
import termios
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from itertools import chain
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import (
    HttpToolsProtocol,
    RequestResponseCycle,
)

from proxy.errors import ErrorCode
from proxy.http.direct_writer import SHORTCUT, Shortcut
from proxy.http.dismissal import Dismissal
from proxy.http.outlet import Outlet
from proxy.http.request_limits import Bounds

logger = logging.getLogger("athena.protocol")

BOUNDS = "bounds"
"""In the lifespan's state: a callable that gives the bounds in force."""
REFUSED = "refused"
"""In the lifespan's state: a callable that hears of the status of every refusal."""
IS_WHOLE = "is_whole"
"""In the state of a request: a callable that says whether all of it has come."""
STALLED = "stalled"
"""In the state of a request whose client was let go because it took nothing."""

_UPGRADE_SPOILS = frozenset((b"content-length", b"transfer-encoding"))
_NOT_HTTP = "this is not a valid HTTP/1.1 request"
_AHEAD = 8
_AHEAD_BYTES = 64 * 1024
"""Requests that may wait for the answer to one before them, and their bytes. Fewer bytes than those
at which the server stops to read: then it would not hear that the client has left."""
_LINGERING = 5.0
"""Seconds for which a client is heard that still sends when it has its answer: closing at once
would have the system throw the answer away. As nginx's."""
_KERNEL_BYTES = 128 * 1024
"""What the system may hold of an answer, besides what is on its way: it would be megabytes."""


class GatewayProtocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bounds: Callable[[], Bounds] = self.app_state.get(BOUNDS, Bounds)
        self._current: RequestResponseCycle | None = None
        """What is being answered; `cycle` is what was read last."""
        self._ahead_bytes = 0
        self._is_in_head = False
        self._is_leaving = False
        """Whether all is said, and what still comes is thrown away."""
        self._steps = 0
        """Heads that began or ended, and pieces of bodies: what reading has led to."""
        self._bare_bytes = 0
        """Of whole reads that led to nothing: parts of a head, or of what stands between chunks."""
        self._head_timer: TimerHandle | None = None
        self._stall_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if (connection := transport.get_extra_info("socket")) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _KERNEL_BYTES)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if (cycle := self._current) is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._unset_keepalive_if_required()
        self._forget_head()
        self._forget_stall()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_leaving:
            return
        self._unset_keepalive_if_required()
        steps = self._steps
        try:
            self.parser.feed_data(data)
            if self._steps == steps:
                self._bare_bytes += len(data)
                self._check_head(self._bare_bytes, 0)
            else:
                self._bare_bytes = 0
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False  # to nothing that is spoken here
        except (httptools.HttpParserError, Dismissal) as error:
            self._refuse(error)
        else:
            cycle = self._current
            if self._head_timer is None and (cycle is None or cycle.response_complete):
                self._await_head()  # a blank line, say, has ended the wait for a next request

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._steps += 1
        self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_head:
            raise Dismissal(ErrorCode.MALFORMED_HTTP, "a request has no trailers here")
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._steps += 1
        if self.pipeline:
            self._count_ahead(len(body))
        super().on_body(body)

    def on_headers_complete(self) -> None:
        size = sum(map(len, chain.from_iterable(self.headers)))
        size += len(self.url) + 4 * len(self.headers)
        self._check_head(size, len(self.headers))
        names, version = [name for name, _ in self.headers], self.parser.get_http_version()
        if names.count(b"host") > 1 or (b"host" not in names and version == "1.1"):
            raise Dismissal(ErrorCode.MALFORMED_HTTP, "a request has one Host header")
        # An HTTP/1.0 request has no chunks: whoever passed it on may have seen another end of it.
        if version not in ("1.0", "1.1") or (version == "1.0" and b"transfer-encoding" in names):
            raise Dismissal(ErrorCode.MALFORMED_HTTP, _NOT_HTTP)
        if self.parser.should_upgrade() and not _UPGRADE_SPOILS.isdisjoint(names):
            # The parser would take the body for what is spoken after the upgrade.
            message = "nothing is spoken here but HTTP/1.1: send the request without Upgrade"
            raise Dismissal(ErrorCode.MALFORMED_HTTP, message)
        self._is_in_head = False
        self._steps += 1
        self._forget_head()
        if (current := self._current) is not None and not current.response_complete:
            self._count_ahead(size)
        super().on_headers_complete()
        cycle = self.cycle
        if self.pipeline:
            self.flow.resume_reading()  # else nobody would hear that the client leaves
        else:
            self._current = cycle
        cycle.transport = Outlet(self.transport, self.leave, self.loop)  # type: ignore[assignment]
        self.scope["state"][IS_WHOLE] = lambda: not cycle.more_body
        self.scope["state"][SHORTCUT] = Shortcut(cycle)

    def on_response_complete(self) -> None:
        if (cycle := self._current) is not None and isinstance(cycle.transport, Outlet):
            cycle.transport.flush()
        if not self._is_received():  # what follows on this connection is the rest of it
            self.leave()
        if self._is_leaving:
            self.server_state.total_requests += 1
        else:
            if self.pipeline:
                self._current = self.pipeline[-1][0]
            if len(self.pipeline) < 2:
                self._ahead_bytes = 0
            super().on_response_complete()
        if self._is_leaving or self.transport.is_closing():  # when the client has taken the rest
            self._watch_stall()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_stall()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._forget_stall()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_stall()

    def leave(self) -> None:
        """Close the connection, so that the client gets to read what was written."""
        if self._is_leaving or self.transport.is_closing():
            return
        if self._is_received() and not self._is_in_head:
            self.transport.close()
            return
        self._is_leaving = True
        self._forget_head()
        self.flow.resume_reading()
        self.transport.write_eof()
        self._head_timer = self.loop.call_later(_LINGERING, self.transport.close)

    def _is_received(self) -> bool:
        cycle = self._current
        return cycle is not None and not cycle.more_body

    def _count_ahead(self, size: int) -> None:
        self._ahead_bytes += size
        if self._ahead_bytes >= _AHEAD_BYTES or len(self.pipeline) >= _AHEAD:
            message = "more is asked than waits for an answer here"
            raise Dismissal(ErrorCode.MALFORMED_HTTP, message)

    def _await_head(self) -> None:
        if self._head_timer is None:
            seconds = self._bounds().request_timeout
            self._head_timer = self.loop.call_later(seconds, self._end_wait)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_wait(self) -> None:
        self._head_timer = None
        if self._is_in_head:
            message = "the request's head did not come in time"
            self._refuse(Dismissal(ErrorCode.REQUEST_TIMEOUT, message))
        else:
            self.transport.close()

    def _check_head(self, size: int, count: int) -> None:
        bounds = self._bounds()
        if size > bounds.max_header_bytes:
            message = f"the request's head is larger than {bounds.max_header_bytes} bytes"
            raise Dismissal(ErrorCode.HEADERS_TOO_LARGE, message)
        if count > bounds.max_headers:
            message = f"the request has more than {bounds.max_headers} headers"
            raise Dismissal(ErrorCode.HEADERS_TOO_LARGE, message)

    def _refuse(self, error: Exception) -> None:
        cause = error if isinstance(error, Dismissal) else error.__context__
        if not isinstance(cause, Dismissal):
            cause = Dismissal(ErrorCode.MALFORMED_HTTP, _NOT_HTTP)
        cycle = self._current
        is_answering = cycle and cycle.response_started and not cycle.response_complete
        request_id = f"req_{secrets.token_hex(12)}"
        if is_answering or self.pipeline:
            self.transport.close()
        else:
            self.transport.write(cause.answer(request_id))
            if cycle and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
            self.leave()
        self.app_state.get(REFUSED, _nobody)(cause.status)
        fields = {"request_id": request_id, "status": cause.status, "error_code": cause.code.value}
        logger.info("%s", cause, extra={"fields": fields | {"error_source": "client"}})
        self._watch_stall()

    def _watch_stall(self) -> None:
        self._forget_stall()
        if unsent := _unsent(self.transport):
            seconds = self._bounds().stall_timeout
            self._stall_timer = self.loop.call_later(seconds, self._end_stall, unsent)

    def _forget_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _end_stall(self, before: int) -> None:
        if _unsent(self.transport) < before:  # slow, but not still
            self._watch_stall()
            return
        if cycle := self._current:
            cycle.scope["state"][STALLED] = True
        self.transport.abort()


def _unsent(transport: Transport) -> int:
    """What was written and the other side has not taken, here or in the system."""
    size = transport.get_write_buffer_size()
    if size and (connection := transport.get_extra_info("socket")) is not None:
        (waiting,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
        size += waiting
    return size


def _nobody(status: int) -> None:
    pass
