"""The hot path's place in Django: its URLconf and async views, and nothing that costs more.

Stock Django makes a thread for every open stream and costs 1.5 ms a request. Here is no middleware,
no signal and no thread, and a request has no more than views of the hot path read. A view must
therefore never touch the database. Who calls is asked before the body is read. When the client
leaves, the view or the stream is cancelled; whatever a response holds is closed on every way out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any

from django.http import HttpResponse, QueryDict
from django.urls import ResolverMatch, get_resolver

from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import Snapshot
from proxy.errors import ErrorCode, GatewayError
from proxy.http.body import Receive, read_body
from proxy.http.protocol import IS_WHOLE, STALLED
from proxy.http.request_limits import Bounds
from proxy.http.response import EventStream, Response, Send, send_response
from proxy.telemetry.log_format import request_id

_ANTHROPIC_HEADERS = ("anthropic-version", "x-api-key")
# Claude Code asks for the models with a bearer token and without a version.
_ANTHROPIC_AGENTS = ("claude", "anthropic", "asyncanthropic")
_RESOLVED = 64
"""Paths whose views are remembered."""


class GatewayRequest:
    """A request, as views of the hot path read it. Its whole body is in memory."""

    def __init__(self, scope: dict[str, Any], body: bytes = b"") -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = _headers(scope["headers"])
        """By name in lower case."""
        self.query_string: bytes = scope.get("query_string", b"")
        self.exchange = Exchange(_dialect(self.path, self.headers))
        self.content = body
        self.snapshot: Snapshot | None = None
        """By which the caller was known."""

    @property
    def query(self) -> QueryDict:
        return QueryDict(self.query_string)

    @property
    def client_address(self) -> str:
        """Empty when nobody knows it."""
        client: tuple[str, int] | None = self.scope.get("client")
        return client[0] if client else ""


class GatewayHandler:
    def __init__(
        self,
        *,
        bounds: Callable[[], Bounds],
        vouch: Callable[[GatewayRequest], Awaitable[bool]],
        answer_error: Callable[[GatewayRequest, Exception], HttpResponse],
        on_end: Callable[[Exchange, int], None],
        uploads: set[asyncio.Timeout],
        admit: Callable[[], None] = lambda: None,
    ) -> None:
        """`vouch` raises GatewayError for a caller whom nobody knows or for whom there is no place,
        and says whether the body is asked for. `on_end` gets every exchange that has ended, and its
        status; `uploads` has the time-out of every body that is being read; `admit` raises when
        no new work is taken."""
        self._on_end = on_end
        self._bounds = bounds
        self._vouch = vouch
        self._answer_error = answer_error
        self._uploads = uploads
        self._admit = admit

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Receive,
        send: Send,
    ) -> None:
        request = GatewayRequest(scope)
        request_id.set(request.exchange.request_id)
        try:
            body = await self._read(request, receive)
        except Exception as error:  # noqa: BLE001  answer_error logs what it does not know
            refusal = self._answer_error(request, error)
            if not _is_whole(scope):
                refusal["connection"] = "close"  # the rest of the body is not read
            try:
                await send_response(refusal, request.exchange.request_id, send)
            finally:
                self._on_end(request.exchange, refusal.status_code)
            return
        if body is None:
            request.exchange.has_client = False
            self._on_end(request.exchange, 499)
            return
        request.content = body
        del body
        task, response = asyncio.current_task(), None
        assert task is not None  # noqa: S101
        listener = asyncio.create_task(_cancel_when_gone(receive, task))
        try:
            response = await self._respond(request)
            await send_response(response, request.exchange.request_id, send)
        except asyncio.CancelledError:
            if not listener.done():  # the server's doing, not the client's
                request.exchange.error = request.exchange.error or _ended()
                if response is None:
                    response = self._answer_error(request, request.exchange.error)
                    await send_response(response, request.exchange.request_id, send)
                raise
            task.uncancel()
            request.exchange.has_client = False
            if STALLED in scope.get("state", ()):
                request.exchange.error = _stalled()
        finally:
            listener.cancel()
            try:
                if isinstance(response, EventStream):
                    response.on_close()
            finally:
                self._on_end(request.exchange, response.status_code if response else 499)

    async def _respond(self, request: GatewayRequest) -> Response:
        try:
            found = _resolve(request.path)
            response: Response = await found.func(request, *found.args, **found.kwargs)
        except Exception as error:  # noqa: BLE001  answer_error logs what it does not know
            return self._answer_error(request, error)
        return response

    async def _read(self, request: GatewayRequest, receive: Receive) -> bytes | None:
        """The body; None when the client left before its end."""
        if not await self._vouch(request):
            return b""
        bounds = self._bounds()
        try:
            return await read_body(
                receive,
                self._uploads,
                most=bounds.max_body_bytes,
                seconds=bounds.request_timeout,
                declared=request.headers.get("content-length"),
                is_whole=_is_whole(request.scope),
            )
        except GatewayError as error:
            if error.code is ErrorCode.REQUEST_TIMEOUT:
                self._admit()  # it may be the gateway that has no more time
            raise


async def _cancel_when_gone(receive: Receive, task: "asyncio.Task[Any]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()


def _is_whole(scope: dict[str, Any]) -> bool:
    """Whether all of the request has come, as far as the server says so."""
    is_whole: Callable[[], bool] | None = scope.get("state", {}).get(IS_WHOLE)
    return is_whole is not None and is_whole()


@lru_cache(_RESOLVED)
def _resolve(path: str) -> ResolverMatch:
    return get_resolver().resolve(path)


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """As Django reads them: one that comes twice has both values, and in a name `_` is no `-`."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        if b"_" not in name:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


def _ended() -> GatewayError:
    return GatewayError(
        ErrorCode.DRAINING,
        "the gateway was stopped before the answer was complete",
    )


def _stalled() -> GatewayError:
    return GatewayError(
        ErrorCode.CLIENT_STALLED, "the client took nothing of its answer for too long"
    )


def _dialect(path: str, headers: dict[str, str]) -> str:
    """How the caller frames: by the endpoint, else by the headers that only one kind sends."""
    if "/messages" in path:
        return "anthropic"
    if "/chat/completions" in path:
        return "openai"
    agent = headers.get("user-agent", "").lower()
    if agent.startswith(_ANTHROPIC_AGENTS) or not headers.keys().isdisjoint(_ANTHROPIC_HEADERS):
        return "anthropic"
    return "openai"
