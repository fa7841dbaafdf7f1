"""The hot path's ASGI handler: Django's URLconf and async views, without the rest of Django.

Stock Django starts a thread for every open stream and costs 1.5 ms per request. This handler runs
no middleware, no signals and no threads, so its views must never touch the database.

It resolves the URL, admits the caller, reads the body, calls the view and sends the response, in
that order: the body of an unknown caller is not read. When the client disconnects, the view or
stream is cancelled; `EventStream.on_close` runs in every case.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from django.http import HttpResponse
from django.urls import ResolverMatch, get_resolver

from proxy.audit.exchange import Exchange
from proxy.errors import ErrorCode, GatewayError
from proxy.http.body import Receive, read_body
from proxy.http.protocol import CLIENT_STALLED, IS_RECEIVED
from proxy.http.request_limits import RequestLimits
from proxy.serving.request import GatewayRequest
from proxy.telemetry.log_format import request_id

_CACHED_PATHS = 64
_DISCONNECTED = 499
_PART_BYTES = 2**16
"""Bytes of a document sent in one part; the rest waits until a slow client has read them."""
_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class EventStream:
    """A response of server-sent events.

    `on_close` is called however the stream ends, even if it never started.
    """

    status_code = 200

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None],
        on_close: Callable[[], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.parts = parts
        self.on_close = on_close
        self.headers = headers or {}


class Document:
    """A response of one JSON document."""

    status_code = 200

    def __init__(self, content: bytes, headers: Mapping[str, str]) -> None:
        self.content = content
        self.headers = headers


Response: TypeAlias = EventStream | Document | HttpResponse
"""Everything except answers uses Django's own response: errors, probes, lists of models."""
View: TypeAlias = Callable[..., Coroutine[Any, Any, Response]]
Admit: TypeAlias = Callable[[GatewayRequest], Awaitable[None]]
Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]


class Endpoint:
    """A view, and the checks that come before it."""

    def __init__(self, view: View, method: str, *, admit: Admit | None, reads_body: bool) -> None:
        self._view = view
        self._method = method
        self._admit = admit
        self.reads_body = reads_body

    async def admit(self, request: GatewayRequest) -> None:
        """Raise GatewayError if the method is wrong or the caller may not use the view."""
        check_method(request, self._method)
        if self._admit is not None:
            await self._admit(request)

    def __call__(self, request: GatewayRequest, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        return self._view(request, **kwargs)


def endpoint(
    method: str, *, admit: Admit | None = None, reads_body: bool = False
) -> Callable[[View], Endpoint]:
    """Make a view an endpoint. Without `reads_body` a request's body is never read."""
    return lambda view: Endpoint(view, method, admit=admit, reads_body=reads_body)


def check_method(request: GatewayRequest, method: str) -> None:
    """Raise GatewayError for any other method. HEAD is allowed with GET."""
    allowed = ("GET", "HEAD") if method == "GET" else (method,)
    if request.method not in allowed:
        raise GatewayError(
            ErrorCode.METHOD_NOT_ALLOWED,
            f"{request.method} is not allowed here: use {method}",
            headers={"allow": ", ".join(allowed)},
        )


class GatewayHandler:
    def __init__(
        self,
        *,
        limits: Callable[[], RequestLimits],
        error_response: Callable[[GatewayRequest, Exception], HttpResponse],
        on_end: Callable[[Exchange, int], None],
        uploads: set[asyncio.Timeout],
        check_accepting: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_end` gets every exchange when it has ended, and its status. `uploads` holds the
        timeout of every body that is being read. `check_accepting` raises GatewayError while the
        gateway stops."""
        self._limits = limits
        self._error_response = error_response
        self._on_end = on_end
        self._uploads = uploads
        self._check_accepting = check_accepting

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        request = GatewayRequest(scope)
        request_id.set(request.exchange.request_id)
        try:
            match = _resolve(request.path)
            body = await self._admit_and_read(match.func, request, receive)
        except Exception as error:  # noqa: BLE001  error_response logs unexpected errors
            await self._reject(request, error, send)
            return
        if body is None:
            request.exchange.has_client = False
            self._on_end(request.exchange, _DISCONNECTED)
            return
        request.body = body
        del body  # the view releases it before it streams
        await self._serve(match, request, receive, send)

    async def _admit_and_read(
        self, view: View | Endpoint, request: GatewayRequest, receive: Receive
    ) -> bytes | None:
        """Return the body; None if the client disconnected before its end."""
        if not isinstance(view, Endpoint):
            return b""
        await view.admit(request)
        if not view.reads_body:
            return b""
        limits = self._limits()
        try:
            return await read_body(
                receive,
                self._uploads,
                max_bytes=limits.max_body_bytes,
                seconds=limits.request_timeout,
                content_length=request.headers.get("content-length"),
                is_received=_is_received(request.scope),
            )
        except GatewayError as error:
            if error.code is ErrorCode.REQUEST_TIMEOUT:
                self._check_accepting()  # a gateway that stops brings the timeout forward
            raise

    async def _reject(self, request: GatewayRequest, error: Exception, send: Send) -> None:
        response = self._error_response(request, error)
        if not _is_received(request.scope):
            response["connection"] = "close"  # the rest of the body is not read
        try:
            await send_response(response, request.exchange.request_id, send)
        finally:
            self._on_end(request.exchange, response.status_code)

    async def _serve(
        self, match: ResolverMatch, request: GatewayRequest, receive: Receive, send: Send
    ) -> None:
        exchange, response = request.exchange, None
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        listener = asyncio.create_task(_cancel_on_disconnect(receive, task))
        try:
            response = await self._respond(match, request)
            await send_response(response, exchange.request_id, send)
        except asyncio.CancelledError:
            if not listener.done():  # the server stops, and the client is still connected
                exchange.error = exchange.error or _stopped()
                if response is None:
                    response = self._error_response(request, exchange.error)
                    await send_response(response, exchange.request_id, send)
                raise
            task.uncancel()
            exchange.has_client = exchange.is_answered
            if CLIENT_STALLED in request.scope.get("state", ()):
                exchange.error = _stalled()
        finally:
            listener.cancel()
            try:
                if isinstance(response, EventStream):
                    response.on_close()
            finally:
                self._on_end(exchange, response.status_code if response else _DISCONNECTED)

    async def _respond(self, match: ResolverMatch, request: GatewayRequest) -> Response:
        try:
            response: Response = await match.func(request, *match.args, **match.kwargs)
        except Exception as error:  # noqa: BLE001  error_response logs unexpected errors
            return self._error_response(request, error)
        return response


async def send_response(response: Response, request_id: str, send: Send) -> None:
    """Send a response as ASGI messages."""
    encoded_id = request_id.encode()
    headers = [
        (b"request-id", encoded_id),
        (b"x-request-id", encoded_id),
        *[
            (name.lower().encode(), text.encode("latin-1"))
            for name, text in response.headers.items()
        ],
    ]
    if isinstance(response, EventStream):
        headers += _STREAM_HEADERS
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async for part in response.parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        finally:
            await response.parts.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    if isinstance(response, Document):
        headers.append((b"content-type", b"application/json"))
    content = response.content
    headers.append((b"content-length", b"%d" % len(content)))
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    for end in range(_PART_BYTES, max(len(content), 1) + _PART_BYTES, _PART_BYTES):
        part, is_more = content[end - _PART_BYTES : end], end < len(content)
        await send({"type": "http.response.body", "body": part, "more_body": is_more})


@lru_cache(_CACHED_PATHS)
def _resolve(path: str) -> ResolverMatch:
    return get_resolver().resolve(path)


async def _cancel_on_disconnect(receive: Receive, task: "asyncio.Task[Any]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()


def _is_received(scope: dict[str, Any]) -> bool:
    """True if the server says that the whole request has arrived."""
    is_received: Callable[[], bool] | None = scope.get("state", {}).get(IS_RECEIVED)
    return is_received is not None and is_received()


def _stopped() -> GatewayError:
    return GatewayError(
        ErrorCode.DRAINING, "the gateway was stopped before the answer was complete"
    )


def _stalled() -> GatewayError:
    return GatewayError(ErrorCode.CLIENT_STALLED, "the client stopped reading its answer")
