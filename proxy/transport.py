"""The connections to all upstreams: an httpx transport on asyncio and httptools.

Certificates are verified, connections are bounded and kept alive, and one that died while it was
idle is replaced without anybody noticing. Proxies are left to httpx's own transport, which
`ATHENA_TRANSPORT=httpx` chooses; it costs several times as much for every chunk.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from typing import TypeAlias, TypeVar

import httpx

from proxy.connection import Connection

_T = TypeVar("_T")
_Origin: TypeAlias = tuple[str, str, int]

MAX_CONNECTIONS = 1000
MAX_IDLE = 100
"""Connections to one upstream that are kept for the next request."""
_KEEP_ALIVE_SECONDS = 30.0
_LINGER_SECONDS = 1.0
"""How long the end of a body may take that nobody needs, so that its connection can be kept."""


class Transport(httpx.AsyncBaseTransport):
    def __init__(self, *, max_connections: int = MAX_CONNECTIONS, max_idle: int = MAX_IDLE) -> None:
        self._idle: dict[_Origin, list[Connection]] = {}
        self.lingering: set[Body] = set()
        """Answers of which the rest may still pass."""
        self._max_idle = max_idle
        self._slots = asyncio.Semaphore(max_connections)
        self._ssl = httpx.create_ssl_context()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer as soon as its headers are there; its stream must be closed."""
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        await _within(timeout.get("pool"), self._slots.acquire(), httpx.PoolTimeout)
        try:
            return await self._send(request, timeout)
        except BaseException:
            self._slots.release()
            raise

    async def _send(
        self, request: httpx.Request, timeout: dict[str, float | None]
    ) -> httpx.Response:
        url = request.url
        origin = (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        connection = self._take_idle(origin)
        while True:
            is_used = connection is not None
            if connection is None:
                connecting = self._connect(origin)
                connection = await _within(timeout.get("connect"), connecting, httpx.ConnectTimeout)
            try:
                connection.send(request)
                await _within(timeout.get("read"), connection.head, httpx.ReadTimeout)
            except httpx.ReadError:
                # The server closed an idle connection as the request was on its way. The second
                # try is on a new one: a request that kills its server is not sent on every other.
                if is_used and not connection.headers:
                    connection = None
                    continue
                raise
            except BaseException:
                connection.abort()
                raise
            return httpx.Response(
                connection.status,
                headers=connection.headers,
                stream=Body(self, origin, connection),
                request=request,
            )

    def _take_idle(self, origin: _Origin) -> Connection | None:
        idle = self._idle.get(origin)
        oldest = asyncio.get_running_loop().time() - _KEEP_ALIVE_SECONDS
        while idle:
            connection = idle.pop()  # the one used last is the likeliest to be alive
            if connection.is_alive and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: _Origin) -> Connection:
        scheme, host, port = origin
        context = self._ssl if scheme == "https" else None
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection, host, port, ssl=context
            )
        except (OSError, ssl.SSLError, UnicodeError) as error:  # a name that cannot be one
            raise httpx.ConnectError(str(error)) from error
        return connection

    def take_back(self, origin: _Origin, connection: Connection) -> None:
        """Keep a connection for the next request if it is clean, else close it."""
        self._slots.release()
        idle = self._idle.setdefault(origin, [])
        if connection.is_reusable and len(idle) < self._max_idle:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        else:
            connection.abort()

    async def aclose(self) -> None:
        for body in list(self.lingering):
            body.abort()
        for idle in self._idle.values():
            for connection in idle:
                connection.abort()
        self._idle.clear()


class Body(httpx.AsyncByteStream):
    """The body of an answer."""

    def __init__(self, transport: Transport, origin: _Origin, connection: Connection) -> None:
        self._transport = transport
        self._origin = origin
        self._connection: Connection | None = connection
        self._timer: asyncio.TimerHandle | None = None

    async def read(self) -> bytes | None:
        """What has arrived since the last read; empty at the end, None when interrupted."""
        return await self._connection.read() if self._connection else b""

    def interrupt(self) -> None:
        """Make a read that is waiting return; nothing is lost."""
        if self._connection:
            self._connection.interrupt()

    def finish(self) -> None:
        """Nothing more is needed: let the rest pass, so that the connection can be kept."""
        if self._connection is None:
            return
        self._transport.lingering.add(self)
        self._timer = asyncio.get_running_loop().call_later(_LINGER_SECONDS, self.abort)
        self._connection.when_complete(self.abort)

    def abort(self) -> None:
        """Give the connection back; one with an unread body is closed."""
        connection, self._connection = self._connection, None
        self._transport.lingering.discard(self)
        if connection is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._transport.take_back(self._origin, connection)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def aclose(self) -> None:
        self.abort()


async def _within(
    seconds: float | None, awaitable: Awaitable[_T], error: type[httpx.TimeoutException]
) -> _T:
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError:
        raise error(f"nothing came for {seconds} s") from None
