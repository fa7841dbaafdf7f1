"""The connections to all upstreams, on asyncio and httptools; httpx gives the errors their names.

Certificates are verified, connections are bounded and kept alive, and one that died while it was
idle is replaced without anybody noticing. A name is resolved and checked once for each connection
(`proxy.security.egress`), and TLS verifies the name. Proxies are left to httpx's own transport,
which `ATHENA_TRANSPORT=httpx` chooses; it costs several times as much for every chunk.
"""

import asyncio
import ssl
from collections.abc import Awaitable
from typing import TypeVar

import httpx
from django.conf import settings

from proxy.configuration.upstream import Origin
from proxy.upstreams.connection import Connection, Take

_T = TypeVar("_T")

MAX_CONNECTIONS = 1000
MAX_IDLE = 100
"""Connections to one upstream that are kept for the next request."""
_KEEP_ALIVE_SECONDS = 30.0
_LINGER_SECONDS = 1.0
"""How long the end of a body may take that nobody needs, so that its connection can be kept."""


class Transport:
    def __init__(self, *, max_connections: int = MAX_CONNECTIONS, max_idle: int = MAX_IDLE) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        self.lingering: set[Body] = set()
        """Answers of which the rest may still pass."""
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
    ) -> "Body":
        """The answer to a request as soon as its headers are there; it must be let go.

        The head is as `head_of` makes it. Raises httpx.TransportError. A place among the
        connections is waited for as long as a connection itself.
        """
        if self._slots.locked():
            await _within(connect_timeout, self._slots.acquire(), httpx.PoolTimeout)
        else:
            await self._slots.acquire()
        try:
            loop = asyncio.get_running_loop()
            connection = self._take_idle(origin, loop)
            while True:
                is_used = connection is not None
                if connection is None:
                    connecting = self._connect(origin)
                    connection = await _within(connect_timeout, connecting, httpx.ConnectTimeout)
                timer = loop.call_later(answer_timeout, connection.expire, answer_timeout)
                try:
                    connection.send(head, body, loop)
                    await connection.head
                except httpx.ReadError:
                    # The server closed an idle connection as the request was on its way. The second
                    # try is on a new one: a request that kills its server is not sent on every
                    # other.
                    if is_used and not connection.headers:
                        connection = None
                        continue
                    raise
                except BaseException:
                    connection.abort()
                    raise
                finally:
                    timer.cancel()
                return Body(self, origin, connection, loop)
        except BaseException:
            self._slots.release()
            raise

    def _take_idle(self, origin: Origin, loop: asyncio.AbstractEventLoop) -> Connection | None:
        idle = self._idle.get(origin)
        oldest = loop.time() - _KEEP_ALIVE_SECONDS
        while idle:
            connection = idle.pop()  # the one used last is the likeliest to be alive
            if connection.is_alive and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: Origin) -> Connection:
        scheme, host, port = origin
        context = self._ssl if scheme == "https" else None
        refusal = OSError("the name has no address")
        try:
            for address in await settings.PRIVATE_UPSTREAMS.resolve_async(host, port):
                try:
                    return await self._dial(address, port, context, host)
                except ssl.SSLError:
                    raise
                except OSError as error:
                    refusal = error
            raise refusal
        except (OSError, UnicodeError) as error:  # a name that cannot be one
            raise httpx.ConnectError(str(error)) from error

    async def _dial(
        self, address: str, port: int, context: ssl.SSLContext | None, name: str
    ) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection, address, port, ssl=context, server_hostname=name if context else None
        )
        return connection

    def take_back(self, origin: Origin, connection: Connection, now: float) -> None:
        """Keep a connection for the next request if it is clean, else close it."""
        self._slots.release()
        idle = self._idle.setdefault(origin, [])
        if connection.is_reusable and len(idle) < self._max_idle:
            connection.idle_since = now
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


class Body:
    """An answer: its status and headers, and its body as it comes."""

    def __init__(
        self,
        transport: Transport,
        origin: Origin,
        connection: Connection,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.status = connection.status
        self.headers = connection.headers
        self._transport = transport
        self._origin = origin
        self._connection: Connection | None = connection
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    async def read(self, take: Take | None = None) -> bytes | None:
        """What has arrived since the last read; empty at the end, None when interrupted.

        What comes while it waits is offered to `take`: if that takes it, the wait goes on.
        """
        return await self._connection.read(take) if self._connection else b""

    def interrupt(self) -> None:
        """Make a read that is waiting return; nothing is lost."""
        if self._connection:
            self._connection.interrupt()

    def finish(self) -> None:
        """Nothing more is needed: let the rest pass, so that the connection can be kept."""
        if self._connection is None:
            return
        if self._connection.has_more(self.abort):
            self._transport.lingering.add(self)
            self._timer = self._loop.call_later(_LINGER_SECONDS, self.abort)
        else:
            self.abort()

    def abort(self) -> None:
        """Give the connection back; one with an unread body is closed."""
        connection, self._connection = self._connection, None
        self._transport.lingering.discard(self)
        if connection is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._transport.take_back(self._origin, connection, self._loop.time())


async def _within(
    seconds: float | None, awaitable: Awaitable[_T], error: type[httpx.TimeoutException]
) -> _T:
    try:
        async with asyncio.timeout(seconds):
            return await awaitable
    except TimeoutError:
        raise error(f"nothing came for {seconds} s") from None
