"""Connection pool for all upstreams, on asyncio and httptools. Raises httpx's exceptions.

Verifies certificates, limits and reuses connections, and retries once if an idle connection turns
out to be closed. Each connection resolves its host name once and checks the addresses
(`proxy.security.egress`); TLS verifies the name. HTTP proxies are not supported: set
`ATHENA_TRANSPORT=httpx` for them, which costs several times as much CPU per chunk.
"""

import asyncio
import ssl
from collections.abc import Awaitable
from typing import TypeVar

import httpx
from django.conf import settings

from proxy.configuration.upstream import Origin
from proxy.upstreams.connection import Connection, OnData

_T = TypeVar("_T")

MAX_CONNECTIONS = 1000
MAX_IDLE = 100
"""Idle connections kept for one upstream."""
_KEEP_ALIVE_SECONDS = 30.0
_DISCARD_SECONDS = 1.0
"""Time to read and discard the rest of a body, so that its connection can be reused."""


class ConnectionPool:
    def __init__(self, *, max_connections: int = MAX_CONNECTIONS, max_idle: int = MAX_IDLE) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        self.discarding: set[PooledAnswer] = set()
        """Finished answers whose remaining body is being discarded."""
        self._max_idle = max_idle
        self._slots = asyncio.Semaphore(max_connections)
        self._ssl = httpx.create_ssl_context()

    async def send(
        self,
        origin: Origin,
        head: bytes,
        body: bytes,
        *,
        connect_timeout: float,
        answer_timeout: float,
    ) -> "PooledAnswer":
        """Send a request and return the answer when its headers have arrived.

        The caller must call `finish` or `abort` on the answer. `head` is made by `head_of`. Waits
        for a free slot as long as for the connection itself. Raises httpx.TransportError.
        """
        if self._slots.locked():
            await _with_timeout(connect_timeout, self._slots.acquire(), httpx.PoolTimeout)
        else:
            await self._slots.acquire()
        try:
            loop = asyncio.get_running_loop()
            connection = self._pop_idle(origin, loop)
            while True:
                is_reused = connection is not None
                if connection is None:
                    connecting = self._connect(origin)
                    connection = await _with_timeout(
                        connect_timeout, connecting, httpx.ConnectTimeout
                    )
                timer = loop.call_later(answer_timeout, connection.expire, answer_timeout)
                try:
                    connection.send(head, body, loop)
                    await connection.head_received
                except httpx.ReadError:
                    # The server closed an idle connection while the request was being sent. Retry
                    # on a new connection, and only once: a request that crashes its server must
                    # not be sent on every idle connection.
                    if is_reused and not connection.headers:
                        connection = None
                        continue
                    raise
                except BaseException:
                    connection.abort()
                    raise
                finally:
                    timer.cancel()
                return PooledAnswer(self, origin, connection, loop)
        except BaseException:
            self._slots.release()
            raise

    def _pop_idle(self, origin: Origin, loop: asyncio.AbstractEventLoop) -> Connection | None:
        idle = self._idle.get(origin)
        oldest = loop.time() - _KEEP_ALIVE_SECONDS
        while idle:
            connection = idle.pop()  # the most recently used is the most likely to be alive
            if connection.is_alive and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: Origin) -> Connection:
        scheme, host, port = origin
        context = self._ssl if scheme == "https" else None
        last_error = OSError("the host name has no address")
        try:
            for address in await settings.PRIVATE_UPSTREAMS.resolve_async(host, port):
                try:
                    return await self._dial(address, port, context, host)
                except ssl.SSLError:
                    raise
                except OSError as error:
                    last_error = error
            raise last_error
        except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            raise httpx.ConnectError(str(error)) from error

    async def _dial(
        self, address: str, port: int, context: ssl.SSLContext | None, name: str
    ) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection, address, port, ssl=context, server_hostname=name if context else None
        )
        return connection

    def release(self, origin: Origin, connection: Connection, now: float) -> None:
        """Keep a connection for the next request if it is reusable, otherwise close it."""
        self._slots.release()
        idle = self._idle.setdefault(origin, [])
        if connection.is_reusable and len(idle) < self._max_idle:
            connection.idle_since = now
            idle.append(connection)
        else:
            connection.abort()

    async def aclose(self) -> None:
        for answer in list(self.discarding):
            answer.abort()
        for idle in self._idle.values():
            for connection in idle:
                connection.abort()
        self._idle.clear()


class PooledAnswer:
    """Status, headers and streamed body of an answer; holds a connection of the pool."""

    def __init__(
        self,
        pool: ConnectionPool,
        origin: Origin,
        connection: Connection,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.status = connection.status
        self.headers = connection.headers
        self._pool = pool
        self._origin = origin
        self._connection: Connection | None = connection
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, on_data: OnData | None = None) -> bytes | None:
        return await self._connection.read(on_data) if self._connection else b""

    def interrupt_read(self) -> None:
        if self._connection:
            self._connection.interrupt_read()

    def finish(self) -> None:
        """Discard the rest of the body, then release the connection."""
        if self._connection is None:
            return
        if self._connection.discard_body(self.abort):
            self._pool.discarding.add(self)
            self._timer = self._loop.call_later(_DISCARD_SECONDS, self.abort)
        else:
            self.abort()

    def abort(self) -> None:
        """Release the connection, which closes it if its body is incomplete."""
        connection, self._connection = self._connection, None
        self._pool.discarding.discard(self)
        if connection is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._pool.release(self._origin, connection, self._loop.time())


async def _with_timeout(
    seconds: float | None, awaitable: Awaitable[_T], error: type[httpx.TimeoutException]
) -> _T:
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError:
        raise error(f"not connected after {seconds} s") from None
