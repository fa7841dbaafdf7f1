"""The server's HTTP/1.1 connection: uvicorn's protocol, with the limits that it lacks.

- The headers of a request must arrive in time and have at most a certain size.
- Trailers are rejected: a field after the body must never be taken for a header.
- An idle connection is closed, and so is one whose client stops reading its response.

A request that breaks these rules never reaches the application. It gets a JSON error that clients
of both dialects understand, and the connection is closed, because the next bytes on it cannot be
trusted. While a response is being sent, no error can be written: the connection is just closed.

Nothing here runs for each chunk of a response: timers start only when a write has to wait. The
limits come through the application's lifespan state, because the server imports this module before
Django is set up.
"""

import fcntl
import json
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
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from proxy.errors import ERRORS, ErrorCode
from proxy.http.direct_writer import DIRECT_WRITER, DirectWriter
from proxy.http.request_limits import RequestLimits
from proxy.telemetry.descriptors import note_connection

logger = logging.getLogger("athena.protocol")

LIMITS = "limits"
"""Key in the lifespan's state: a callable that returns the current RequestLimits."""
ON_REJECTION = "on_rejection"
"""Key in the lifespan's state: a callback that gets the status of every rejected request."""
IS_RECEIVED = "is_received"
"""Key in a request's state: a callable that returns True once the whole request has arrived."""
CLIENT_STALLED = "client_stalled"
"""Key in a request's state, set if the client was dropped because it stopped reading."""

_BODY_HEADERS = frozenset((b"content-length", b"transfer-encoding"))
_NOT_HTTP = "this is not a valid HTTP/1.1 request"
_MAX_PIPELINED = 8
_MAX_PIPELINED_BYTES = 64 * 1024
"""Requests that may wait while an earlier one is answered, and their bytes. Below the limit at
which uvicorn pauses reading: a paused connection would not notice that the client disconnects."""
_LINGER_SECONDS = 5.0
"""Time in which the rest of a request is read and discarded after its response. Closing
immediately would make the system discard the response. The same as nginx's `lingering_timeout`."""
_UNSENT_BYTES = 128 * 1024
"""Unsent bytes of a response in the socket's buffer; by default the system keeps megabytes."""


class RejectedRequest(Exception):
    """A request that is answered here, before the application sees it."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = ERRORS[code].status

    def response(self, request_id: str) -> bytes:
        """The dialect is unknown: the body has the fields that clients of both dialects read."""
        spec = ERRORS[self.code]
        error = {"type": spec.kind, "message": str(self), "param": None, "code": spec.kind}
        body = json.dumps({"type": "error", "error": error, "request_id": request_id}).encode()
        lines = (
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
            f"request-id: {request_id}",
            f"x-request-id: {request_id}",
            f"x-athena-error: {self.code}",
            f"x-athena-error-source: {spec.source}",
            *(() if spec.should_retry else ("x-should-retry: false",)),
        )
        return STATUS_LINE[self.status] + "\r\n".join((*lines, "", "")).encode() + body


class _LingeringTransport:
    """The connection as a response sees it: `close` lets the client read the response first."""

    def __init__(self, transport: Transport, close: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = close


class GatewayProtocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits: Callable[[], RequestLimits] = self.app_state.get(LIMITS, RequestLimits)
        self._current: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the one that was read last."""
        self._pipelined_bytes = 0
        self._is_in_headers = False
        self._is_lingering = False
        """True once the last response is written and all further input is discarded."""
        self._progress = 0
        """Counts headers that started or ended, and parts of bodies."""
        self._bytes_without_progress = 0
        """Bytes read since the last progress: parts of headers, or of the framing of chunks."""
        self._headers_timer: TimerHandle | None = None
        self._stall_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if (connection := transport.get_extra_info("socket")) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
            note_connection(connection.fileno())
        self._start_headers_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if (cycle := self._current) is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._unset_keepalive_if_required()
        self._cancel_headers_timer()
        self._cancel_stall_timer()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._is_lingering:
            return
        self._unset_keepalive_if_required()
        progress = self._progress
        try:
            self.parser.feed_data(data)
            if self._progress == progress:
                self._bytes_without_progress += len(data)
                self._check_headers(self._bytes_without_progress, 0)
            else:
                self._bytes_without_progress = 0
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False  # no other protocol is supported
        except (httptools.HttpParserError, RejectedRequest) as error:
            self._reject(error)
        else:
            cycle = self._current
            if self._headers_timer is None and (cycle is None or cycle.response_complete):
                self._start_headers_timer()  # a blank line ended the keep-alive timer

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_headers = True
        self._progress += 1
        self._start_headers_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_headers:
            message = "trailers are not supported: send the fields as headers"
            raise RejectedRequest(ErrorCode.MALFORMED_HTTP, message)
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._progress += 1
        if self.pipeline:
            self._count_pipelined(len(body))
        super().on_body(body)

    def on_headers_complete(self) -> None:
        size = sum(map(len, chain.from_iterable(self.headers)))
        size += len(self.url) + 4 * len(self.headers)
        self._check_headers(size, len(self.headers))
        self._check_framing()
        self._is_in_headers = False
        self._progress += 1
        self._cancel_headers_timer()
        if (current := self._current) is not None and not current.response_complete:
            self._count_pipelined(size)
        super().on_headers_complete()
        cycle = self.cycle
        if self.pipeline:
            self.flow.resume_reading()  # else a disconnect would not be noticed
        else:
            self._current = cycle
        cycle.transport = _LingeringTransport(self.transport, self.linger)  # type: ignore[assignment]
        self.scope["state"][IS_RECEIVED] = lambda: not cycle.more_body
        self.scope["state"][DIRECT_WRITER] = DirectWriter(cycle)

    def on_response_complete(self) -> None:
        if not self._is_received():  # the next bytes are the rest of the request
            self.linger()
        if self._is_lingering:
            self.server_state.total_requests += 1
        else:
            if self.pipeline:
                self._current = self.pipeline[-1][0]
            if len(self.pipeline) < 2:
                self._pipelined_bytes = 0
            super().on_response_complete()
        if self._is_lingering or self.transport.is_closing():  # once the client has read the rest
            self._start_stall_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_stall_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._cancel_stall_timer()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._start_stall_timer()

    def linger(self) -> None:
        """Close the connection in a way that lets the client read the response first."""
        if self._is_lingering or self.transport.is_closing():
            return
        if self._is_received() and not self._is_in_headers:
            self.transport.close()
            return
        self._is_lingering = True
        self._cancel_headers_timer()
        self.flow.resume_reading()
        self.transport.write_eof()
        self._headers_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _is_received(self) -> bool:
        cycle = self._current
        return cycle is not None and not cycle.more_body

    def _count_pipelined(self, size: int) -> None:
        self._pipelined_bytes += size
        if self._pipelined_bytes >= _MAX_PIPELINED_BYTES or len(self.pipeline) >= _MAX_PIPELINED:
            message = "too many requests on this connection are waiting for a response"
            raise RejectedRequest(ErrorCode.MALFORMED_HTTP, message)

    def _check_headers(self, size: int, count: int) -> None:
        limits = self._limits()
        if size > limits.max_header_bytes:
            message = f"the request's headers are larger than {limits.max_header_bytes} bytes"
            raise RejectedRequest(ErrorCode.HEADERS_TOO_LARGE, message)
        if count > limits.max_headers:
            message = f"the request has more than {limits.max_headers} headers"
            raise RejectedRequest(ErrorCode.HEADERS_TOO_LARGE, message)

    def _check_framing(self) -> None:
        """Reject headers that another server could read differently."""
        names, version = [name for name, _ in self.headers], self.parser.get_http_version()
        if names.count(b"host") > 1 or (b"host" not in names and version == "1.1"):
            message = "a request must have exactly one Host header"
            raise RejectedRequest(ErrorCode.MALFORMED_HTTP, message)
        # HTTP/1.0 has no chunks: a proxy in between may have seen another end of the request.
        if version not in ("1.0", "1.1") or (version == "1.0" and b"transfer-encoding" in names):
            raise RejectedRequest(ErrorCode.MALFORMED_HTTP, _NOT_HTTP)
        if self.parser.should_upgrade() and not _BODY_HEADERS.isdisjoint(names):
            # The parser would take the body for data of the upgraded protocol.
            message = "only HTTP/1.1 is supported: send the request without Upgrade"
            raise RejectedRequest(ErrorCode.MALFORMED_HTTP, message)

    def _reject(self, error: Exception) -> None:
        cause = error if isinstance(error, RejectedRequest) else error.__context__
        if not isinstance(cause, RejectedRequest):
            cause = RejectedRequest(ErrorCode.MALFORMED_HTTP, _NOT_HTTP)
        cycle = self._current
        is_answering = cycle and cycle.response_started and not cycle.response_complete
        request_id = f"req_{secrets.token_hex(12)}"
        if is_answering or self.pipeline:
            self.transport.close()
        else:
            self.transport.write(cause.response(request_id))
            if cycle and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
            self.linger()
        if (on_rejection := self.app_state.get(ON_REJECTION)) is not None:
            on_rejection(cause.status)
        fields = {"request_id": request_id, "status": cause.status, "error_code": cause.code.value}
        logger.info("%s", cause, extra={"fields": fields | {"error_source": "client"}})
        self._start_stall_timer()

    def _start_headers_timer(self) -> None:
        if self._headers_timer is None:
            seconds = self._limits().request_timeout
            self._headers_timer = self.loop.call_later(seconds, self._on_headers_timeout)

    def _cancel_headers_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None

    def _on_headers_timeout(self) -> None:
        self._headers_timer = None
        if self._is_in_headers:
            message = "the request's headers did not arrive in time"
            self._reject(RejectedRequest(ErrorCode.REQUEST_TIMEOUT, message))
        else:
            self.transport.close()

    def _start_stall_timer(self) -> None:
        self._cancel_stall_timer()
        if unsent := _unsent_bytes(self.transport):
            seconds = self._limits().stall_timeout
            self._stall_timer = self.loop.call_later(seconds, self._on_stall_timeout, unsent)

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _on_stall_timeout(self, unsent_before: int) -> None:
        if _unsent_bytes(self.transport) < unsent_before:  # slow, but still reading
            self._start_stall_timer()
            return
        if cycle := self._current:
            cycle.scope["state"][CLIENT_STALLED] = True
        self.transport.abort()


def _unsent_bytes(transport: Transport) -> int:
    """Written bytes that the client has not acknowledged, here or in the socket's buffer."""
    size = transport.get_write_buffer_size()
    if size and (connection := transport.get_extra_info("socket")) is not None:
        (waiting,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
        size += waiting
    return size
