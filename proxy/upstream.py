"""The HTTP client: a rendered request → an upstream's answer, or why there is none."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Protocol

import httpx

from formats import Event, FailureKind, MessageFailed
from proxy.errors import ErrorCode, UpstreamFailed
from proxy.refusal import redacted, refusal_of, told_headers
from proxy.routing import Route
from proxy.snapshot import Upstream
from proxy.transport import MAX_CONNECTIONS, Body, Transport

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
    """The body of an upstream's answer."""

    async def read(self) -> bytes | None:
        """What has arrived since the last read; empty at the end, None when interrupted."""

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
        self._client = httpx.AsyncClient(limits=limits) if transport == "httpx" else None

    async def open(
        self, route: Route, body: bytes, carried: Carried, *, tokens: int
    ) -> tuple[Answer, dict[str, str]]:
        """The body of a good answer, and what of its headers a client may see.

        Raises UpstreamFailed. `tokens` is the estimate of the input, for an upstream that says no
        more than "too long".
        """
        upstream = route.upstream
        if upstream.trouble:
            raise UpstreamFailed(
                f"the upstream {upstream.name} cannot be used: {upstream.trouble}",
                code=ErrorCode.UPSTREAM_MISCONFIGURED,
                may_retry=False,
            )
        request = httpx.Request(
            "POST",
            upstream.url.copy_with(query=carried.query) if carried.query else upstream.url,
            # A client's headers go on byte for byte: Django reads them as Latin-1.
            headers=httpx.Headers(_headers(upstream, carried), encoding="latin-1"),
            content=body,
            extensions={
                "timeout": {
                    "connect": upstream.connect_timeout,
                    "read": upstream.first_byte_timeout,
                    "write": upstream.first_byte_timeout,
                    "pool": upstream.connect_timeout,
                }
            },
        )
        try:
            response, answer = await self._send(request)
        except httpx.TransportError as error:
            raise failure_of(error, upstream) from error
        if response.status_code == 200:
            _check_encoding(response, answer)
            return answer, told_headers(response.headers)
        raise refusal_of(route, response, await _read_error(answer), tokens=tokens)

    async def _send(self, request: httpx.Request) -> tuple[httpx.Response, Answer]:
        if self._transport is not None:
            response = await self._transport.handle_async_request(request)
            assert isinstance(response.stream, Body)  # noqa: S101
            return response, response.stream
        assert self._client is not None  # noqa: S101
        response = await self._client.send(request, stream=True)
        return response, ReadAhead(response)

    async def aclose(self) -> None:
        for part in (self._transport, self._client):
            if part is not None:
                await part.aclose()


class ReadAhead:
    """An answer of httpx's own transport, read by a task of its own: reads may be cancelled."""

    def __init__(self, response: httpx.Response) -> None:
        self._chunks: asyncio.Queue[bytes | httpx.TransportError | None] = asyncio.Queue(16)
        self._task = asyncio.create_task(self._pump(response))

    async def _pump(self, response: httpx.Response) -> None:
        try:
            async for chunk in response.aiter_raw():
                await self._chunks.put(chunk)
            await self._chunks.put(b"")
        except httpx.TransportError as error:
            await self._chunks.put(error)
        finally:
            await response.aclose()

    async def read(self) -> bytes | None:
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
    name, cause = upstream.name, error.__cause__
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return UpstreamFailed(
                f"the upstream {name} did not take the connection in time",
                kind=FailureKind.TIMEOUT,
                code=ErrorCode.UPSTREAM_CONNECT_TIMEOUT,
            )
        case httpx.TimeoutException() | TimeoutError():
            return UpstreamFailed(
                f"the upstream {name} did not begin its answer in time",
                kind=FailureKind.TIMEOUT,
                code=ErrorCode.FIRST_BYTE_TIMEOUT,
            )
        case httpx.ConnectError() if isinstance(cause, socket.gaierror):
            return UpstreamFailed(
                f"the name of the upstream {name} cannot be resolved",
                code=ErrorCode.UPSTREAM_DNS,
                retries=True,
            )
        case httpx.ConnectError() if isinstance(cause, ssl.SSLError):
            return UpstreamFailed(
                f"the upstream {name} cannot be trusted: its certificate or TLS is wrong",
                code=ErrorCode.UPSTREAM_TLS,
            )
        case httpx.ConnectError():
            return UpstreamFailed(
                f"the upstream {name} cannot be reached",
                code=ErrorCode.UPSTREAM_UNREACHABLE,
                retries=True,
            )
        case httpx.RemoteProtocolError():
            return UpstreamFailed(
                f"the upstream {name} does not speak HTTP", code=ErrorCode.UPSTREAM_PROTOCOL
            )
    return UpstreamFailed(
        f"the connection to the upstream {name} was lost",
        code=ErrorCode.UPSTREAM_RESET,
        retries=True,
    )


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


def redacted_event(event: Event, upstream: Upstream) -> Event:
    """The event itself, or a failure whose words must not be shown as they are."""
    if not isinstance(event, MessageFailed):
        return event
    return MessageFailed(event.kind, redacted(event.message, upstream))


def _check_encoding(response: httpx.Response, answer: Answer) -> None:
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() not in ("", "identity"):
        answer.abort()
        raise UpstreamFailed(
            f"the upstream compressed its answer ({encoding[:20]}) although that was not allowed",
            code=ErrorCode.UPSTREAM_ENCODING,
        )
