"""One HTTP/1.1 connection to an upstream: a request out, an answer in.

Everything that one read of the socket brings is one read of the body. A read may be interrupted
without losing data: the heartbeat of a silent stream needs that, and generators cannot give it.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias, cast

import httptools
import httpx

_READ_AHEAD = 256 * 1024
"""Bytes that may wait for a slow client before the upstream is not read any more."""
_HEAD_BYTES = 64 * 1024
"""Bytes that may come without any of a body: headers, trailers. The parser itself has no limit."""

Take: TypeAlias = Callable[[bytes], bool]
"""Says whether it has taken what came."""


class Cut(httpx.ReadError):
    """The upstream closed the connection in the middle of a body; a reset is no closing."""


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.idle_since = 0.0
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.head: asyncio.Future[None]  # done when the headers are there
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser
        self._head_bytes = 0
        self._chunks: list[bytes] = []
        self._size = 0  # of those that wait for their reader
        self.on_body: Callable[[bytes], None] = self._chunks.append
        self._reader: asyncio.Future[bool] | None = None
        self._take: Take | None = None
        self._is_lost = False
        self._is_complete = True
        self._is_kept_alive = False
        self._error: httpx.TransportError | None = None
        self._on_complete: Callable[[], None] | None = None

    def send(self, head: bytes, body: bytes, loop: asyncio.AbstractEventLoop) -> None:
        """Send a request, whose head ends before its length; raises ReadError when the connection
        is lost."""
        if not self.is_alive:
            raise httpx.ReadError("the connection was closed")
        self.head = loop.create_future()
        self.status, self.headers, self._head_bytes = 0, [], 0
        self._is_complete = False
        self._parser = httptools.HttpResponseParser(self)
        self._transport.writelines((b"%b%d\r\n\r\n" % (head, len(body)), body))

    async def read(self, take: Take | None = None) -> bytes | None:
        """What has arrived since the last read; empty at the end, None when interrupted.

        What comes while it waits is offered to `take`, without waking the reader's task: when that
        says that it has taken it, the read goes on waiting.
        """
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._is_complete:
                return b""
            self._reader, self._take = asyncio.get_running_loop().create_future(), take
            try:
                if not await self._reader:
                    return None
            finally:
                self._reader = self._take = None
        return self._take_chunks()

    def expire(self, seconds: float) -> None:
        """Wait no longer for the answer's head."""
        if not self.head.done():
            self._fail(httpx.ReadTimeout(f"nothing came for {seconds} s"))

    def interrupt(self) -> None:
        """Make a read that is waiting return None."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(False)

    @property
    def is_alive(self) -> bool:
        # One that is closing must not be used either: asyncio says that it is lost only later.
        return not self._is_lost and not self._transport.is_closing()

    @property
    def is_reusable(self) -> bool:
        """Whether nothing of this answer is left that the next request could take for its own."""
        return (
            self.is_alive
            and self._is_complete
            and not self._chunks
            and self._error is None
            and self._is_kept_alive
            and not self._transport.get_write_buffer_size()
        )

    @property
    def is_reading(self) -> bool:
        """Whether more of the body may come."""
        return self.is_alive and not self._is_complete and self._error is None

    def has_more(self, on_complete: Callable[[], None]) -> bool:
        """Throw the rest of the body away; if more of it may come, its end will be told."""
        self._take_chunks()
        if not self.is_reading:
            return False
        self._on_complete = on_complete
        return True

    def abort(self) -> None:
        if self.is_alive:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        if self._is_complete:  # nobody asked: what follows cannot be trusted
            self.abort()
            return
        chunks = self._chunks
        before = len(chunks)
        try:
            self._parser.feed_data(data)
            if len(chunks) > before:
                self._head_bytes = 0
            else:
                self._head_bytes += len(data)
                if self._head_bytes > _HEAD_BYTES and not self._is_complete:
                    raise httptools.HttpParserError("too much that is not body")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._is_complete:  # else the answer is good, and what follows it is not
                self._fail(httpx.RemoteProtocolError(f"not HTTP: {error}"))
            self.abort()
        reader, take = self._reader, self._take
        if reader is None or take is None or not chunks or reader.done():
            if self._on_complete is not None:  # nobody will read it
                chunks.clear()
            self._wake()
        else:
            self._offer(take, reader)
        if chunks:
            self._size += sum(map(len, chunks[before:]))
            if self._size > _READ_AHEAD and self.is_alive:
                self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if not self._is_complete:
            if exc is not None or not self.head.done():
                self._fail(httpx.ReadError(str(exc) if exc else "the connection was closed"))
            elif self._ends_with_connection():
                self._is_complete = True
            else:
                self._fail(Cut("the connection was closed in the middle of the body"))
        self._wake()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._is_complete:
            raise ValueError("a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if sum(len(name) + len(value) for name, value in self.headers) > _HEAD_BYTES:
            raise ValueError("too much that is not body")  # it came with a part of the body
        self.status = self._parser.get_status_code()
        self._is_kept_alive = self._parser.should_keep_alive()
        if self.status >= 200 and not self.head.done():
            self.head.set_result(None)

    def on_message_complete(self) -> None:
        if self.status < 200:  # 100 and 103 come before the answer
            self.headers = []
            return
        self._is_complete = True

    def _ends_with_connection(self) -> bool:
        return not any(
            name == b"content-length"
            or (name == b"transfer-encoding" and value.lower().endswith(b"chunked"))
            for name, value in self.headers
        )

    def _take_chunks(self) -> bytes:
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if self._size > _READ_AHEAD and self.is_alive:
            self._transport.resume_reading()
        self._size = 0
        return data

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(True)
        if self._on_complete is not None and not self.is_reading:
            call, self._on_complete = self._on_complete, None
            call()

    def _offer(self, take: Take, reader: "asyncio.Future[bool]") -> None:
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        try:
            is_taken = take(data)
        except Exception as error:  # noqa: BLE001  whoever reads is told
            reader.set_exception(error)
            return
        if not is_taken:
            chunks.append(data)
        elif not self._is_complete and self._error is None:
            return
        if not reader.done():  # `take` may have interrupted it
            reader.set_result(True)

    def _fail(self, error: httpx.TransportError) -> None:
        self._error = self._error or error  # the first says why, others follow from it
        if not self.head.done():
            self.head.set_exception(error)
