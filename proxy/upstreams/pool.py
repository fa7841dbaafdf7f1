"""Connection pool for all upstreams, on asyncio and httptools. Raises httpx's exceptions.

Verifies certificates, limits and reuses connections, and sends a request again if its connection
turns out to have been closed while it was idle.

The data of one answer must never reach the client of the next. So a connection is reused only after
a rest in which late data can arrive, and if its socket holds none; and an upstream that has sent
data without a request gets new connections only, for an hour.

Each connection resolves its host name once and checks the addresses (`proxy.security.egress`); TLS
verifies the name. HTTP proxies are not supported: set `ATHENA_TRANSPORT=httpx` for them, which
costs several times as much CPU per chunk.
"""

import asyncio
import logging
import ssl
import time
from bisect import bisect_right
from collections.abc import Awaitable
from functools import partial
from operator import attrgetter
from typing import TypeVar

import httpx
from django.conf import settings

from proxy.configuration.upstream import Origin, address_of
from proxy.upstreams.connection import Connection, OnData

_T = TypeVar("_T")

MAX_CONNECTIONS = 1000
MAX_IDLE = 100
"""Idle connections kept for one upstream."""
_KEEP_ALIVE_SECONDS = 30.0
_REST_SECONDS = 0.05
"""Time between an answer and the next request on its connection. Longer than the 40 ms for which
Linux delays an acknowledgement, and with it a late second write of a server that uses Nagle's
algorithm."""
_SUSPICION_SECONDS = 3600.0
_AT_ONCE_SECONDS = 0.5
"""A connection that was closed while idle reports it within a round trip. A later close may be the
upstream's reaction to the request."""
_IDLE_SINCE = attrgetter("idle_since")
_DISCARD_SECONDS = 1.0
"""Time to read and discard the rest of a body, so that its connection can be reused."""


logger = logging.getLogger("athena.pool")


class ConnectionPool:
    def __init__(
        self,
        *,
        max_connections: int = MAX_CONNECTIONS,
        max_idle: int = MAX_IDLE,
        rest: float = _REST_SECONDS,
    ) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        """In the order in which they became idle."""
        self._suspected: dict[Origin, float] = {}
        """Upstreams that sent data without a request, and the time until which none of their
        connections is reused, in seconds since the epoch."""
        self._rest = rest
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
        may_use_idle: bool = True,
        may_keep: bool = True,
    ) -> "PooledAnswer":
        """Send a request and return the answer when its headers have arrived.

        The caller must call `finish` or `abort` on the answer. `head` is made by `head_of`. Waits
        for a free slot as long as for the connection itself. Raises httpx.TransportError.

        The request is sent at most once, not counting an idle connection that was closed at once,
        before any byte of an answer. `may_use_idle` and `may_keep` allow a connection from an
        earlier request, and for a later one.
        """
        if self._slots.locked():
            await _with_timeout(connect_timeout, self._slots.acquire(), httpx.PoolTimeout)
        else:
            await self._slots.acquire()
        try:
            loop = asyncio.get_running_loop()
            connection = self._pop_idle(origin, loop) if may_use_idle else None
            if connection is not None:
                sent_at = loop.time()
                try:
                    await _exchange(connection, head, body, answer_timeout, loop)
                except httpx.ReadError:
                    if connection.is_answered or loop.time() - sent_at > _AT_ONCE_SECONDS:
                        raise
                    connection = None
            if connection is None:
                connecting = self._connect(origin)
                connection = await _with_timeout(connect_timeout, connecting, httpx.ConnectTimeout)
                # Right after the handshake of TLS, session tickets may be unread.
                if origin[0] == "http" and not connection.is_silent():
                    connection.abort()
                    raise httpx.ReadError("data, or the end, arrived before the request was sent")
                await _exchange(connection, head, body, answer_timeout, loop)
            return PooledAnswer(self, origin, connection, loop, may_keep=may_keep)
        except BaseException:
            self._slots.release()
            raise

    def _pop_idle(self, origin: Origin, loop: asyncio.AbstractEventLoop) -> Connection | None:
        idle = self._idle.get(origin)
        if not idle:
            return None
        now = loop.time()
        # The most recently used is the most likely to be alive.
        for position in range(bisect_right(idle, now - self._rest, key=_IDLE_SINCE) - 1, -1, -1):
            connection = idle.pop(position)
            is_young = connection.idle_since > now - _KEEP_ALIVE_SECONDS
            if connection.is_alive and is_young and connection.is_silent():
                return connection
            connection.abort()
        return None

    def suspected(self) -> dict[Origin, float]:
        """Return the upstreams whose connections are not reused, and until when (epoch)."""
        now = time.time()
        return {origin: end for origin, end in self._suspected.items() if end > now}

    def _is_suspected(self, origin: Origin) -> bool:
        return self._suspected.get(origin, 0) > time.time()

    def _suspect(self, origin: Origin) -> None:
        """Stop reusing connections of an upstream that sent data without a request."""
        if not self._is_suspected(origin):
            logger.warning(
                "%s sent data after the end of an answer, or before a request. The data was"
                " dropped; no connection to it is reused for an hour. If this repeats, switch off"
                " *reuse connections* on the page of the upstream",
                address_of(origin),
            )
        self._suspected[origin] = time.time() + _SUSPICION_SECONDS
        for connection in self._idle.pop(origin, []):
            connection.abort()

    async def _connect(self, origin: Origin) -> Connection:
        scheme, host, port = origin
        context = self._ssl if scheme == "https" else None
        last_error = OSError("the host name has no address")
        try:
            for address in await settings.PRIVATE_UPSTREAMS.resolve_async(host, port):
                try:
                    return await self._dial(origin, address, context)
                except ssl.SSLError:
                    raise
                except OSError as error:
                    last_error = error
            raise last_error
        except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            raise httpx.ConnectError(str(error)) from error

    async def _dial(
        self, origin: Origin, address: str, context: ssl.SSLContext | None
    ) -> Connection:
        _, name, port = origin
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(partial(self._suspect, origin)),
            address,
            port,
            ssl=context,
            server_hostname=name if context else None,
        )
        return connection

    def release(
        self, origin: Origin, connection: Connection, now: float, *, may_keep: bool
    ) -> None:
        """Keep a connection for the next request if it is reusable, otherwise close it."""
        self._slots.release()
        idle = self._idle.setdefault(origin, [])
        if (
            may_keep
            and connection.is_reusable
            and not self._is_suspected(origin)
            and len(idle) < self._max_idle
        ):
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
        *,
        may_keep: bool,
    ) -> None:
        self.status = connection.status
        self.headers = connection.headers
        self._pool = pool
        self._origin = origin
        self._connection: Connection | None = connection
        self._loop = loop
        self._may_keep = may_keep
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
            now = self._loop.time()
            self._pool.release(self._origin, connection, now, may_keep=self._may_keep)


async def _exchange(
    connection: Connection,
    head: bytes,
    body: bytes,
    timeout: float,
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Send a request and wait for the head of its answer; closes the connection if that fails."""
    timer = loop.call_later(timeout, connection.expire, timeout)
    try:
        connection.send(head, body, loop)
        await connection.head_received
    except BaseException:
        connection.abort()
        raise
    finally:
        timer.cancel()


async def _with_timeout(
    seconds: float | None, awaitable: Awaitable[_T], error: type[httpx.TimeoutException]
) -> _T:
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError:
        raise error(f"not connected after {seconds} s") from None
