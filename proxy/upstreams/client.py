"""HTTP client for upstreams: sends a rendered request, returns the answer or raises the failure."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import httpx
from msgspec.structs import replace

from formats import Event, MessageFailed, with_upstream_name
from proxy.configuration.routing import Route
from proxy.configuration.upstream import Origin, Upstream, head_of
from proxy.errors import ErrorCode, UpstreamFailed
from proxy.security.egress import ForbiddenAddress
from proxy.telemetry.descriptors import is_shortage, report_shortage
from proxy.upstreams.answer_headers import Headers, header_value, redact_credentials
from proxy.upstreams.connection import BodyTruncated, OnData
from proxy.upstreams.error_answers import parse_error_answer
from proxy.upstreams.httpx_client import CheckedClient
from proxy.upstreams.pool import MAX_CONNECTIONS, ConnectionPool

_MAX_ERROR_BYTES = 64 * 1024
_ERROR_SECONDS = 5
_VERSION = "anthropic-version"
# Headers whose values add up instead of replacing each other.
_LIST_HEADERS = ("anthropic-beta",)


# Prefixes of the headers that are forwarded to an upstream of the client's dialect, without
# exceptions: if a beta's field arrives without its header, the upstream rejects the request.
_FORWARDED = {"anthropic": "anthropic-", "openai": "openai-"}


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Headers and query of a client's request, for an upstream of the same dialect."""

    headers: tuple[tuple[str, str], ...] = ()
    query: bytes = b""

    @classmethod
    def of_request(cls, dialect: str, headers: Mapping[str, str], query: bytes) -> "Forwarded":
        prefix = _FORWARDED[dialect]
        chosen = tuple(item for item in headers.items() if item[0].startswith(prefix))
        return cls(chosen, query) if chosen or query else NOTHING_FORWARDED


NOTHING_FORWARDED = Forwarded()


class Answer(Protocol):
    """Status, headers and streamed body of an upstream's answer."""

    status: int
    headers: Headers

    async def read(self, on_data: OnData | None = None) -> bytes | None:
        """Return the data since the last read: empty at the end, None if interrupted.

        While it waits, data may go to `on_data` first; data that it consumes is not returned.
        """

    def interrupt_read(self) -> None:
        """Make a waiting read return None. No data is lost."""

    def finish(self) -> None:
        """Release the connection; the rest of the body is not needed."""

    def abort(self) -> None:
        """Close the connection, even if data is still arriving."""


class UpstreamClient:
    def __init__(self, *, transport: str) -> None:
        """`transport` is `athena`, the gateway's own pool, or `httpx`, which supports proxies."""
        self._pool = ConnectionPool() if transport == "athena" else None
        # httpcore would take data after one answer for the next answer: reuse no connection.
        limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
        self._client = CheckedClient(limits=limits) if transport == "httpx" else None

    async def open(
        self,
        route: Route,
        body: bytes,
        forwarded: Forwarded,
        *,
        tokens: int,
        is_repeated: bool = False,
    ) -> Answer:
        """Return an answer with status 200; raises UpstreamFailed.

        `tokens` estimates the input, for upstreams that reply "too long" without a number. A
        repeated request goes to a new connection, which cannot have been closed while idle.
        """
        upstream = route.upstream
        if upstream.trouble:
            raise UpstreamFailed(
                ErrorCode.UPSTREAM_MISCONFIGURED,
                f"the upstream {upstream.name} cannot be used: {upstream.trouble}",
            )
        try:
            if self._pool is not None:
                answer: Answer = await self._pool.send(
                    upstream.origin,
                    upstream.head if forwarded is NOTHING_FORWARDED else _head(upstream, forwarded),
                    body,
                    connect_timeout=upstream.connect_timeout,
                    answer_timeout=upstream.first_byte_timeout,
                    may_use_idle=upstream.reuse_connections and not is_repeated,
                    may_keep=upstream.reuse_connections,
                )
            else:
                answer = await self._send_by_httpx(upstream, body, forwarded)
        except httpx.TransportError as error:
            raise transport_failure(error, upstream) from error
        if answer.status == 200:
            _check_encoding(answer)
            return answer
        raise parse_error_answer(
            route, answer.status, answer.headers, await _read_error(answer), tokens=tokens
        )

    def suspected(self) -> dict[Origin, float]:
        """Return the upstreams whose connections are not reused, and until when (epoch)."""
        return self._pool.suspected() if self._pool is not None else {}

    async def _send_by_httpx(self, upstream: Upstream, body: bytes, forwarded: Forwarded) -> Answer:
        assert self._client is not None  # noqa: S101
        timeout = {
            "connect": upstream.connect_timeout,
            "read": upstream.first_byte_timeout,
            "write": upstream.first_byte_timeout,
            "pool": upstream.connect_timeout,
        }
        request = httpx.Request(
            "POST",
            _url(upstream, forwarded),
            # The client's headers were decoded as Latin-1, and are forwarded byte for byte.
            headers=httpx.Headers(_headers(upstream, forwarded), encoding="latin-1"),
            content=body,
            extensions={"timeout": timeout},
        )
        # httpx's own timeouts start again with every byte.
        seconds = upstream.connect_timeout + upstream.first_byte_timeout
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.send(request, stream=True)
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no response headers after {seconds} s") from error
        except httpx.RemoteProtocolError as error:
            if closed := _as_read_error(error):
                raise closed from error
            raise
        # The body has its own deadlines; httpx reads this dict again when the body is read.
        request.extensions["timeout"]["read"] = None
        return HttpxAnswer(response)

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()
        if self._client is not None:
            await self._client.aclose()


class HttpxAnswer:
    """Answer of the httpx client. A task reads the body, so that `read` can be cancelled."""

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
            await self._chunks.put(_as_read_error(error) or error)
        finally:
            await response.aclose()

    async def read(self, on_data: OnData | None = None) -> bytes | None:
        chunk = await self._chunks.get()
        if isinstance(chunk, httpx.TransportError):
            raise chunk
        return chunk

    def interrupt_read(self) -> None:
        if self._chunks.empty():
            self._chunks.put_nowait(None)

    def finish(self) -> None:
        # A task that is cancelled before its first step never runs: it would not close anything.
        asyncio.get_running_loop().call_soon(self._task.cancel)

    abort = finish


def transport_failure(error: Exception, upstream: Upstream) -> UpstreamFailed:
    """Convert a transport error. The message never contains the upstream's address."""
    name = upstream.name
    match error:
        case httpx.ConnectError() if is_shortage(error):
            report_shortage()
            return UpstreamFailed(
                ErrorCode.AT_CAPACITY,
                f"the gateway has no file descriptor left for a connection to the upstream {name}",
            )
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return UpstreamFailed(
                ErrorCode.UPSTREAM_CONNECT_TIMEOUT,
                f"the upstream {name} did not accept the connection in time",
            )
        case httpx.TimeoutException() | TimeoutError():
            return UpstreamFailed(
                ErrorCode.FIRST_BYTE_TIMEOUT,
                f"the upstream {name} did not start to answer in time",
            )
        case httpx.ConnectError() if _is_caused_by(ForbiddenAddress, error):
            return UpstreamFailed(
                ErrorCode.UPSTREAM_FORBIDDEN_ADDRESS, f"the upstream {name} cannot be used: {error}"
            )
        case httpx.ConnectError() if _is_caused_by(socket.gaierror, error):
            return UpstreamFailed(
                ErrorCode.UPSTREAM_DNS, f"the host name of the upstream {name} cannot be resolved"
            )
        case httpx.ConnectError() if _is_caused_by(ssl.SSLError, error):
            return UpstreamFailed(
                ErrorCode.UPSTREAM_TLS,
                f"the TLS certificate of the upstream {name} is not trusted, or its TLS is broken",
            )
        case httpx.ConnectError() if _is_caused_by(ConnectionResetError, error):
            hint = ". Does it speak TLS?" if upstream.url.scheme == "https" else ""
            return UpstreamFailed(
                ErrorCode.UPSTREAM_UNREACHABLE,
                f"the upstream {name} accepted the connection and closed it at once{hint}",
            )
        case httpx.ConnectError():
            return UpstreamFailed(
                ErrorCode.UPSTREAM_UNREACHABLE, f"the upstream {name} cannot be reached"
            )
        case BodyTruncated():
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
        error = error.__cause__ or error.__context__  # httpx wraps wrapped errors
    return error is not None


def _as_read_error(error: httpx.TransportError) -> httpx.ReadError | None:
    """Recognise a closed connection, which httpx reports as a protocol error.

    Only the message tells the two apart.
    """
    if str(error).startswith("peer closed connection"):
        return BodyTruncated(str(error))
    return httpx.ReadError(str(error)) if str(error).startswith("Server disconnected") else None


def _head(upstream: Upstream, forwarded: Forwarded) -> bytes:
    return head_of(_url(upstream, forwarded), _headers(upstream, forwarded))


def _url(upstream: Upstream, forwarded: Forwarded) -> httpx.URL:
    return upstream.url.copy_with(query=forwarded.query) if forwarded.query else upstream.url


def _headers(upstream: Upstream, forwarded: Forwarded) -> list[tuple[str, str]]:
    """Merge the headers: the operator's replace the client's, except version and lists."""
    own = {name.lower(): value for name, value in upstream.headers}
    added = [
        (name, value)
        for name, value in forwarded.headers
        if name not in own or name == _VERSION or name in _LIST_HEADERS
    ]
    is_versioned = any(name == _VERSION for name, _ in added)
    kept = [(n, v) for n, v in upstream.headers if not (is_versioned and n.lower() == _VERSION)]
    return [*kept, *added]


async def _read_error(answer: Answer) -> bytes:
    """Read the body of an error response, limited in size and time."""
    body = b""
    try:
        async with asyncio.timeout(_ERROR_SECONDS):
            while len(body) < _MAX_ERROR_BYTES and (data := await answer.read()):
                body += data
    except (TimeoutError, httpx.TransportError):
        pass
    finally:
        answer.finish()
    return body[:_MAX_ERROR_BYTES]


def redact_failures(events: list[Event], upstream: Upstream) -> list[Event]:
    """Redact the upstream's credentials in the messages of failures, and name the upstream."""
    return [
        replace(
            event,
            message=redact_credentials(with_upstream_name(event.message, upstream.name), upstream),
        )
        if isinstance(event, MessageFailed)
        else event
        for event in events
    ]


def _check_encoding(answer: Answer) -> None:
    encoding = header_value(answer.headers, b"content-encoding")
    if encoding and encoding.lower() != "identity":
        answer.abort()
        raise UpstreamFailed(
            ErrorCode.UPSTREAM_ENCODING,
            f"the upstream compressed its answer ({encoding[:20]}), which is not allowed",
        )
