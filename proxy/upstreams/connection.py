"""HTTP/1.1 client connection: an asyncio protocol that sends a request and parses the answer.

One read of the socket is one read of the body. A waiting read can be interrupted without losing
data, so that pings can be sent on a silent stream; an async generator cannot do that.
"""

import asyncio
import re
import socket
from collections.abc import Callable
from typing import TypeAlias, cast

import httptools
import httpx

_MAX_BUFFERED_BYTES = 256 * 1024
"""Body bytes that wait for a slow client; above it, the socket is not read."""
_MAX_HEAD_BYTES = 64 * 1024
"""Bytes of headers or trailers without any body. The parser itself has no limit."""

_IDLE_TIMEOUT = re.compile(rb"HTTP/1\.[01] 408 ")
"""Some servers, HAProxy among them, close an idle connection with this unrequested answer."""
_PEEKED_BYTES = 16

OnData: TypeAlias = Callable[[bytes], bool]
"""Callback for body data; returns True if it has consumed the data."""


class BodyTruncated(httpx.ReadError):
    """The upstream closed the connection in the middle of a body, without a reset."""


class Connection(asyncio.Protocol):
    def __init__(self, on_unsolicited: Callable[[], None]) -> None:
        """`on_unsolicited` is called when data arrives that no request asked for."""
        self.idle_since = 0.0
        self.is_answered = False
        """True once any byte has arrived after the request."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.head_received: asyncio.Future[None]
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser
        self._on_unsolicited = on_unsolicited
        self._is_in_head = False
        self._head_bytes = 0
        self._chunks: list[bytes] = []
        self._buffered_bytes = 0
        self.on_body: Callable[[bytes], None] = self._chunks.append
        self._reader: asyncio.Future[bool] | None = None
        self._on_data: OnData | None = None
        self._is_lost = False
        self._is_complete = True
        self._keeps_alive = False
        self._error: httpx.TransportError | None = None
        self._on_complete: Callable[[], None] | None = None

    def send(self, head: bytes, body: bytes, loop: asyncio.AbstractEventLoop) -> None:
        """Send a request; raises ReadError if the connection is lost.

        `head` ends with `content-length: `: the length is appended here.
        """
        if not self.is_alive:
            raise httpx.ReadError("the connection was closed")
        self.head_received = loop.create_future()
        self.status, self.headers, self._head_bytes = 0, [], 0
        self._is_complete = self.is_answered = False
        self._parser = httptools.HttpResponseParser(self)
        self._transport.writelines((b"%b%d\r\n\r\n" % (head, len(body)), body))

    async def read(self, on_data: OnData | None = None) -> bytes | None:
        """Return the data since the last read: empty at the end, None if interrupted.

        While it waits, data goes to `on_data` first, without waking the reading task. The read
        returns only with data that `on_data` did not consume.
        """
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._is_complete:
                return b""
            self._reader, self._on_data = asyncio.get_running_loop().create_future(), on_data
            try:
                if not await self._reader:
                    return None
            finally:
                self._reader = self._on_data = None
        return self._pop_chunks()

    def expire(self, seconds: float) -> None:
        """Fail with a timeout if the head of the answer has not arrived."""
        if not self.head_received.done():
            self._fail(httpx.ReadTimeout(f"no response headers after {seconds} s"))

    def interrupt_read(self) -> None:
        """Make a waiting read return None."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(False)

    @property
    def is_alive(self) -> bool:
        # asyncio calls connection_lost some time after the transport starts to close.
        return not self._is_lost and not self._transport.is_closing()

    def is_silent(self) -> bool:
        """Return False if the socket holds data, or its end, which the event loop has not read.

        Nothing may be sent then: the data would be taken for the answer.
        """
        data = self._peek()
        if data and not self._transport.get_extra_info("ssl_object"):
            # With TLS it may be a session ticket or the close: only the decrypted data can tell.
            self._report_unsolicited(data)
        return data is None

    def _peek(self) -> bytes | None:
        """Look at the unread data of the socket: empty at its end, None if there is none."""
        shared = self._transport.get_extra_info("socket")
        if shared is None:
            return None
        own = socket.socket(shared.family, shared.type, shared.proto, fileno=shared.fileno())
        try:
            return own.recv(_PEEKED_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        finally:
            own.detach()  # the transport closes the descriptor

    @property
    def is_reusable(self) -> bool:
        """True if no data of this answer can be mistaken for the next one's.

        After any other status than 200 the upstream may not have read the whole request, and could
        take the rest of it for the next one.
        """
        return (
            self.is_alive
            and self.status == 200
            and self._is_complete
            and not self._chunks
            and self._error is None
            and self._keeps_alive
            and not self._transport.get_write_buffer_size()
        )

    @property
    def expects_data(self) -> bool:
        """True if more of the body may arrive."""
        return self.is_alive and not self._is_complete and self._error is None

    def discard_body(self, on_complete: Callable[[], None]) -> bool:
        """Discard the rest of the body.

        Returns True if more of it may arrive; `on_complete` is then called at its end.
        """
        self._pop_chunks()
        if not self.expects_data:
            return False
        self._on_complete = on_complete
        return True

    def abort(self) -> None:
        if self.is_alive:
            self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is not a subclass

    def data_received(self, data: bytes) -> None:
        if self._is_complete:
            self._report_unsolicited(data)
            self.abort()
            return
        self.is_answered = True
        chunks = self._chunks
        before = len(chunks)
        try:
            self._parser.feed_data(data)
            if len(chunks) > before:
                self._head_bytes = 0
            else:
                self._head_bytes += len(data)
                if self._head_bytes > _MAX_HEAD_BYTES and not self._is_complete:
                    raise httptools.HttpParserError("headers or trailers are too large")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._is_complete:  # only the data after the answer is bad
                self._on_unsolicited()
            else:
                self._fail(httpx.RemoteProtocolError(f"not valid HTTP: {error}"))
            self.abort()
        reader, on_data = self._reader, self._on_data
        if reader is None or on_data is None or not chunks or reader.done():
            if self._on_complete is not None:  # the body is being discarded
                chunks.clear()
            self._wake()
        else:
            self._offer(on_data, reader)
        if chunks:
            self._buffered_bytes += sum(map(len, chunks[before:]))
            if self._buffered_bytes > _MAX_BUFFERED_BYTES and self.is_alive:
                self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if not self._is_complete:
            if exc is not None or not self.head_received.done():
                self._fail(httpx.ReadError(str(exc) if exc else "the connection was closed"))
            elif self._ends_with_connection():
                self._is_complete = True
            else:
                self._fail(BodyTruncated("the connection was closed in the middle of the body"))
        self._wake()

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._is_complete:
            raise ValueError("a second answer to one request")
        self._is_in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers are dropped
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if sum(len(name) + len(value) for name, value in self.headers) > _MAX_HEAD_BYTES:
            raise ValueError("headers or trailers are too large")  # and body data came with them
        self.status = self._parser.get_status_code()
        self._keeps_alive = self._parser.should_keep_alive()
        if self.status >= 200 and not self.head_received.done():
            self.head_received.set_result(None)

    def on_message_complete(self) -> None:
        if self.status < 200:  # informational: 100 or 103
            self.headers = []
            return
        self._is_complete = True

    def _report_unsolicited(self, data: bytes) -> None:
        if not _IDLE_TIMEOUT.match(data):
            self._on_unsolicited()

    def _ends_with_connection(self) -> bool:
        return not any(
            name == b"content-length"
            or (name == b"transfer-encoding" and value.lower().endswith(b"chunked"))
            for name, value in self.headers
        )

    def _pop_chunks(self) -> bytes:
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if self._buffered_bytes > _MAX_BUFFERED_BYTES and self.is_alive:
            self._transport.resume_reading()
        self._buffered_bytes = 0
        return data

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(True)
        if self._on_complete is not None and not self.expects_data:
            call, self._on_complete = self._on_complete, None
            call()

    def _offer(self, on_data: OnData, reader: "asyncio.Future[bool]") -> None:
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        try:
            is_consumed = on_data(data)
        except Exception as error:  # noqa: BLE001  raised by the waiting read
            reader.set_exception(error)
            return
        if not is_consumed:
            chunks.append(data)
        elif not self._is_complete and self._error is None:
            return
        if not reader.done():  # `on_data` may have interrupted it
            reader.set_result(True)

    def _fail(self, error: httpx.TransportError) -> None:
        self._error = self._error or error  # the first is the cause of the others
        if not self.head_received.done():
            self.head_received.set_exception(error)
