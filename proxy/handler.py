"""Django's ASGI handler for the hot path, slimmed.

Stock Django makes a thread for every open stream and costs 1.5 ms a request. This one has the
URLconf, the request, async views and responses, and leaves out the rest: no middleware, no signals,
no thread. A view must therefore never touch the database. When the client leaves, the view or the
stream is cancelled; whatever a response holds is closed on every way out.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from io import BytesIO
from typing import Any, TypeAlias

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import get_resolver

from formats import FailureKind
from proxy.errors import ErrorCode, GatewayError
from proxy.exchange import Exchange
from proxy.logs import request_id

_Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
_Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]

BODY_PATIENCE = 30.0
"""Seconds for which nothing of a request's body may come: its sender is stuck, or an attacker."""
_ANTHROPIC_HEADERS = (b"anthropic-version", b"x-api-key")
# Claude Code asks for the models with a bearer token and without a version.
_ANTHROPIC_AGENTS = (b"claude", b"anthropic", b"asyncanthropic")


class GatewayRequest(ASGIRequest):
    """A request whose whole body is in memory."""

    def __init__(self, scope: dict[str, Any], body: bytes = b"") -> None:
        super().__init__(scope, BytesIO(body))
        self.exchange = Exchange(_dialect(scope))
        self.content = body


class EventStream(StreamingHttpResponse):
    """Server-sent events; `on_close` is called however the stream ends, even before it began."""

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None],
        on_close: Callable[[], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            parts,
            content_type="text/event-stream",
            headers={"cache-control": "no-cache", "x-accel-buffering": "no", **(headers or {})},
        )
        self.parts = parts
        self.on_close = on_close


class GatewayHandler(ASGIHandler):
    def __init__(
        self,
        *,
        max_body_bytes: Callable[[], int],
        answer_error: Callable[[GatewayRequest, Exception], HttpResponse],
        on_end: Callable[[Exchange, int], None],
        uploads: set[asyncio.Timeout],
    ) -> None:
        """`on_end` gets every exchange that has ended, and its status; `uploads` has the time-out
        of every body that is being read."""
        super().__init__()
        self._on_end = on_end
        self._max_body_bytes = max_body_bytes
        self._answer_error = answer_error
        self._uploads = uploads

    def load_middleware(self, is_async: bool = False) -> None:
        """None of it."""

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: _Receive,
        send: _Send,
    ) -> None:
        try:
            request = GatewayRequest(scope)
            request_id.set(request.exchange.request_id)
            body = await self._read(request, receive)
        except GatewayError as error:
            refusal = self._answer_error(request, error)
            await self.send_response(refusal, send)
            self._on_end(request.exchange, refusal.status_code)
            return
        if body is None:
            return
        request.content = body
        del body
        task, response = asyncio.current_task(), None
        assert task is not None  # noqa: S101
        listener = asyncio.create_task(_cancel_when_gone(receive, task))
        try:
            response = await self._respond(request)
            await self.send_response(response, send)
        except asyncio.CancelledError:
            if not listener.done():  # the server's doing, not the client's
                request.exchange.error = request.exchange.error or _ended()
                raise
            task.uncancel()
            request.exchange.has_client = False
        finally:
            listener.cancel()
            try:
                if isinstance(response, EventStream):
                    response.on_close()
            finally:
                self._on_end(request.exchange, response.status_code if response else 499)

    async def _respond(self, request: GatewayRequest) -> HttpResponseBase:
        try:
            found = get_resolver().resolve(request.path_info)
            response: HttpResponseBase = await found.func(request, *found.args, **found.kwargs)
        except Exception as error:  # noqa: BLE001  answer_error logs what it does not know
            response = self._answer_error(request, error)
        if isinstance(response, HttpResponse):
            response["content-length"] = str(len(response.content))
        response["request-id"] = response["x-request-id"] = request.exchange.request_id
        return response

    async def _read(self, request: GatewayRequest, receive: _Receive) -> bytes | None:
        """The body; None when the client left before its end."""
        limit = self._max_body_bytes()
        if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
            raise _too_large(limit)
        patience = asyncio.timeout(None)
        self._uploads.add(patience)
        try:
            async with patience:
                return await _read_body(receive, limit, patience)
        except TimeoutError as error:
            raise GatewayError(
                "the request's body did not come in time",
                kind=FailureKind.TIMEOUT,
                status=408,
                code=ErrorCode.REQUEST_TIMEOUT,
                source="client",
                headers={"connection": "close"},
            ) from error
        finally:
            self._uploads.discard(patience)

    async def send_response(self, response: HttpResponseBase, send: _Send) -> None:
        if not isinstance(response, EventStream):
            await super().send_response(response, send)
            return
        headers = [(k.lower().encode(), v.encode("latin1")) for k, v in response.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(response.parts) as parts:
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _read_body(receive: _Receive, limit: int, patience: asyncio.Timeout) -> bytes | None:
    parts: list[bytes] = []
    size, loop = 0, asyncio.get_running_loop()
    while True:
        patience.reschedule(loop.time() + BODY_PATIENCE)
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def _cancel_when_gone(receive: _Receive, task: "asyncio.Task[Any]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()


def _ended() -> GatewayError:
    return GatewayError(
        "the gateway was stopped before the answer was complete",
        kind=FailureKind.OVERLOADED,
        status=503,
        code=ErrorCode.DRAINING,
    )


def _too_large(limit: int) -> GatewayError:
    return GatewayError(
        f"the request is larger than {limit} bytes",
        kind=FailureKind.TOO_LARGE,
        code=ErrorCode.BODY_TOO_LARGE,
        source="client",
        may_retry=False,
        headers={"connection": "close"},
    )


def _dialect(scope: dict[str, Any]) -> str:
    """How the caller frames: by the endpoint, else by the headers that only one kind sends."""
    path = scope["path"]
    if "/messages" in path:
        return "anthropic"
    if "/chat/completions" in path:
        return "openai"
    headers = dict(scope["headers"])
    agent = headers.get(b"user-agent", b"").lower()
    if agent.startswith(_ANTHROPIC_AGENTS) or not headers.keys().isdisjoint(_ANTHROPIC_HEADERS):
        return "anthropic"
    return "openai"
