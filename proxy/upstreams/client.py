"""The HTTP client: a rendered request → an upstream's answer, or why there is none."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Protocol

import httpx
from msgspec.structs import replace

from formats import Event, MessageFailed
from proxy.configuration.routing import Route
from proxy.configuration.upstream import Upstream, head_of
from proxy.errors import ErrorCode, UpstreamFailed
from proxy.security.egress import Forbidden
from proxy.upstreams.connection import Cut, Take
from proxy.upstreams.error_answers import Headers, joined, redacted, refusal_of
from proxy.upstreams.httpx_client import StockClient
from proxy.upstreams.pool import MAX_CONNECTIONS, Transport

_ERROR_BYTES = 64 * 1024
_VERSION = "anthropic-version"
_LISTS = ("anthropic-beta",)


@dataclass(frozen=True, slots=True)
class Carried:
    """What comes with a client's request, for an upstream of the client's own dialect."""

    headers: tuple[tuple[str, str], ...] = ()
    query: bytes = b""


NOTHING_CARRIED = Carried()


class Answer(Protocol):
    """An upstream's answer, whose body is on its way."""

    status: int
    headers: Headers
    """Their names in lower case."""

    async def read(self, take: Take | None = None) -> bytes | None:
        """What has arrived since the last read; empty at the end, None when interrupted.

        What comes while it waits may be offered to `take`: if that takes it, the wait goes on.
        """

    def interrupt(self) -> None:
        """Make a read that is waiting return; nothing is lost."""

    def finish(self) -> None:
        """Nothing more is needed."""

    def abort(self) -> None:
        """Close it, whatever is still on its way."""


class UpstreamClient:
    def __init__(self, *, transport: str) -> None:
        """`transport` is `athena`, the gateway's own, or `httpx`, which knows proxies."""
        self._transport = Transport() if transport == "athena" else None
        # httpcore keeps what came behind an answer for the next one, so no connection is kept.
        limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
        self._client = StockClient(limits=limits) if transport == "httpx" else None

    async def open(self, route: Route, body: bytes, carried: Carried, *, tokens: int) -> Answer:
        """A good answer; raises UpstreamFailed.

        `tokens` is the estimate of the input, for an upstream that says no more than "too long".
        """
        upstream = route.upstream
        if upstream.trouble:
            raise UpstreamFailed(
                ErrorCode.UPSTREAM_MISCONFIGURED,
                f"the upstream {upstream.name} cannot be used: {upstream.trouble}",
            )
        try:
            if self._transport is not None:
                answer: Answer = await self._transport.send(
                    upstream.origin,
                    upstream.head if carried is NOTHING_CARRIED else _head(upstream, carried),
                    body,
                    connect_timeout=upstream.connect_timeout,
                    answer_timeout=upstream.first_byte_timeout,
                )
            else:
                answer = await self._send_by_httpx(upstream, body, carried)
        except httpx.TransportError as error:
            raise failure_of(error, upstream) from error
        if answer.status == 200:
            _check_encoding(answer)
            return answer
        raise refusal_of(
            route, answer.status, answer.headers, await _read_error(answer), tokens=tokens
        )

    async def _send_by_httpx(self, upstream: Upstream, body: bytes, carried: Carried) -> Answer:
        assert self._client is not None  # noqa: S101
        timeout = {
            "connect": upstream.connect_timeout,
            "read": upstream.first_byte_timeout,
            "write": upstream.first_byte_timeout,
            "pool": upstream.connect_timeout,
        }
        request = httpx.Request(
            "POST",
            _url(upstream, carried),
            # A client's headers go on byte for byte: they are read as Latin-1.
            headers=httpx.Headers(_headers(upstream, carried), encoding="latin-1"),
            content=body,
            extensions={"timeout": timeout},
        )
        try:
            response = await self._client.send(request, stream=True)
        except httpx.RemoteProtocolError as error:
            if lost := _lost(error):
                raise lost from error
            raise
        # The body has deadlines of its own; httpx reads this dict again when it begins to read it.
        request.extensions["timeout"]["read"] = None
        return ReadAhead(response)

    async def aclose(self) -> None:
        for part in (self._transport, self._client):
            if part is not None:
                await part.aclose()


class ReadAhead:
    """An answer of httpx's own transport, read by a task of its own: reads may be cancelled."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = [(name.lower(), value) for name, value in response.headers.raw]
        self._chunks: asyncio.Queue[bytes | httpx.TransportError | None] = asyncio.Queue(16)
        self._task = asyncio.create_task(self._pump(response))

    async def _pump(self, response: httpx.Response) -> None:
        try:
            async for chunk in response.aiter_raw():
                await self._chunks.put(chunk)
            await self._chunks.put(b"")
        except httpx.TransportError as error:
            await self._chunks.put(_lost(error) or error)
        finally:
            await response.aclose()

    async def read(self, take: Take | None = None) -> bytes | None:
        chunk = await self._chunks.get()
        if isinstance(chunk, httpx.TransportError):
            raise chunk
        return chunk

    def interrupt(self) -> None:
        if self._chunks.empty():
            self._chunks.put_nowait(None)

    def finish(self) -> None:
        # A task that is cancelled before its first step never runs, and would close nothing.
        asyncio.get_running_loop().call_soon(self._task.cancel)

    abort = finish


def failure_of(error: Exception, upstream: Upstream) -> UpstreamFailed:
    """Why an upstream could not be asked, or did not answer. Its address is not the client's."""
    name = upstream.name
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return UpstreamFailed(
                ErrorCode.UPSTREAM_CONNECT_TIMEOUT,
                f"the upstream {name} did not take the connection in time",
            )
        case httpx.TimeoutException() | TimeoutError():
            return UpstreamFailed(
                ErrorCode.FIRST_BYTE_TIMEOUT,
                f"the upstream {name} did not begin its answer in time",
            )
        case httpx.ConnectError() if _is_caused_by(Forbidden, error):
            return UpstreamFailed(
                ErrorCode.UPSTREAM_FORBIDDEN_ADDRESS, f"the upstream {name} cannot be used: {error}"
            )
        case httpx.ConnectError() if _is_caused_by(socket.gaierror, error):
            return UpstreamFailed(
                ErrorCode.UPSTREAM_DNS, f"the name of the upstream {name} cannot be resolved"
            )
        case httpx.ConnectError() if _is_caused_by(ssl.SSLError, error):
            return UpstreamFailed(
                ErrorCode.UPSTREAM_TLS,
                f"the upstream {name} cannot be trusted: its certificate or TLS is wrong",
            )
        case httpx.ConnectError():
            return UpstreamFailed(
                ErrorCode.UPSTREAM_UNREACHABLE, f"the upstream {name} cannot be reached"
            )
        case Cut():
            return UpstreamFailed(
                ErrorCode.UPSTREAM_TRUNCATED,
                f"the upstream {name} closed the connection in the middle of its answer",
            )
        case httpx.RemoteProtocolError():
            return UpstreamFailed(
                ErrorCode.UPSTREAM_PROTOCOL, f"the upstream {name} does not speak HTTP"
            )
    return UpstreamFailed(
        ErrorCode.UPSTREAM_RESET, f"the connection to the upstream {name} was lost"
    )


def _is_caused_by(kind: type[Exception], error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__  # httpx wraps what others have wrapped
    return error is not None


def _lost(error: httpx.TransportError) -> httpx.ReadError | None:
    """A connection that was closed, which httpx takes for one that does not speak HTTP.

    It has nothing but its words to tell one from the other.
    """
    if str(error).startswith("peer closed connection"):
        return Cut(str(error))
    return httpx.ReadError(str(error)) if str(error).startswith("Server disconnected") else None


def _head(upstream: Upstream, carried: Carried) -> bytes:
    return head_of(_url(upstream, carried), _headers(upstream, carried))


def _url(upstream: Upstream, carried: Carried) -> httpx.URL:
    return upstream.url.copy_with(query=carried.query) if carried.query else upstream.url


def _headers(upstream: Upstream, carried: Carried) -> list[tuple[str, str]]:
    """The upstream's headers and the client's. An operator's word stands, but for lists."""
    own = {name.lower(): value for name, value in upstream.headers}
    added = [
        (name, value)
        for name, value in carried.headers
        if name not in own or name == _VERSION or name in _LISTS
    ]
    is_versioned = any(name == _VERSION for name, _ in added)
    kept = [(n, v) for n, v in upstream.headers if not (is_versioned and n.lower() == _VERSION)]
    return [*kept, *added]


async def _read_error(answer: Answer) -> bytes:
    """As much of an error's body as is worth reading."""
    body = b""
    try:
        async with asyncio.timeout(5):
            while len(body) < _ERROR_BYTES and (data := await answer.read()):
                body += data
    except (TimeoutError, httpx.TransportError):
        pass
    finally:
        answer.finish()
    return body[:_ERROR_BYTES]


def redacted_events(events: list[Event], upstream: Upstream) -> list[Event]:
    """The events themselves, but for a failure whose words must not be shown as they are."""
    return [
        replace(event, message=redacted(event.message, upstream))
        if isinstance(event, MessageFailed)
        else event
        for event in events
    ]


def _check_encoding(answer: Answer) -> None:
    encoding = joined(answer.headers, b"content-encoding")
    if encoding and encoding.lower() != "identity":
        answer.abort()
        raise UpstreamFailed(
            ErrorCode.UPSTREAM_ENCODING,
            f"the upstream compressed its answer ({encoding[:20]}) although that was not allowed",
        )
