"""Limits request bodies for pages and the management API, before stock Django sees them.

Stock Django writes a body of any size to disk, however slowly it arrives, before it checks the
sender. Here the body is read first, with a maximum size and a minimum rate, and stays in memory.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from proxy.errors import GatewayError
from proxy.http.body import Receive, read_body
from proxy.http.protocol import IS_RECEIVED
from proxy.http.request_limits import RequestLimits

_Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
_Application: TypeAlias = Callable[[dict[str, Any], Receive, _Send], Awaitable[None]]

MAX_BODY_BYTES = 2_621_440
"""Django's own default for a body in memory; more than twice the largest document."""
_MAX_UPLOADS = 64
_API = "/api/"


class PageBodyLimit:
    """ASGI middleware."""

    def __init__(
        self,
        application: _Application,
        *,
        limits: Callable[[], RequestLimits],
        on_rejection: Callable[[int], None],
    ) -> None:
        self._application = application
        self._limits = limits
        self._on_rejection = on_rejection
        self._uploads = _Uploads()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: _Send) -> None:
        if scope["state"][IS_RECEIVED]():
            await self._application(scope, receive, send)
            return
        content_length = dict(scope["headers"]).get(b"content-length", b"").decode()
        try:
            body = await read_body(
                receive,
                self._uploads,
                max_bytes=MAX_BODY_BYTES,
                seconds=self._limits().request_timeout,
                content_length=content_length,
            )
        except GatewayError as error:
            self._on_rejection(error.status)
            await _reject(scope["path"], error, send)
            return
        if body is not None:
            await self._application(scope, _replay(body, receive), send)


class _Uploads:
    """The bodies that are being read. One more than the maximum times out the oldest: a form
    arrives in a moment, and slow clients must not keep others out."""

    def __init__(self) -> None:
        self._timeouts: dict[asyncio.Timeout, None] = {}

    def add(self, timeout: asyncio.Timeout) -> None:
        if len(self._timeouts) >= _MAX_UPLOADS:
            oldest = next(iter(self._timeouts))
            del self._timeouts[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        self._timeouts[timeout] = None

    def discard(self, timeout: asyncio.Timeout) -> None:
        self._timeouts.pop(timeout, None)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Wrap `receive` so that it starts with a body that was read from it."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Mapping[str, Any]:
        return pending.pop() if pending else await receive()

    return replayed


async def _reject(path: str, error: GatewayError, send: _Send) -> None:
    is_api = path.startswith(_API)
    body = json.dumps({"detail": f"{error}"}) if is_api else f"{error}\n"
    headers = {
        "content-type": "application/json" if is_api else "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        "connection": "close",
        "x-athena-error": error.code.value,
        "x-athena-error-source": error.source,
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body.encode()})
