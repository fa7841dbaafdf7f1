"""What pages and the management API are sent: forms and documents, and nothing that is large.

Stock Django would write a body of any size to the disk, for as long as it takes to come, before it
asks who sends it. Here it is read first, within bounds, and never reaches the disk.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from proxy.errors import GatewayError
from proxy.http.body import Receive, read_body
from proxy.http.protocol import IS_WHOLE
from proxy.http.request_limits import Bounds

_Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
_Application: TypeAlias = Callable[[dict[str, Any], Receive, _Send], Awaitable[None]]

MOST_BYTES = 2_621_440
"""What Django holds in memory by default: more than twice the largest document."""
_MOST_AT_ONCE = 64
_API = "/api/"


class Submissions:
    def __init__(
        self,
        application: _Application,
        *,
        bounds: Callable[[], Bounds],
        on_refusal: Callable[[int], None],
    ) -> None:
        self._application = application
        self._bounds = bounds
        self._on_refusal = on_refusal
        self._uploads = _Uploads()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: _Send) -> None:
        if scope["state"][IS_WHOLE]():
            await self._application(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"").decode()
        try:
            body = await read_body(
                receive,
                self._uploads,
                most=MOST_BYTES,
                seconds=self._bounds().request_timeout,
                declared=declared,
            )
        except GatewayError as error:
            self._on_refusal(error.status)
            await _refuse(scope["path"], error, send)
            return
        if body is not None:
            await self._application(scope, _after(body, receive), send)


class _Uploads:
    """The bodies that are being read. One too many, and the oldest has no more time: a form comes
    in a moment, and who holds a place for longer must not keep others out."""

    def __init__(self) -> None:
        self._held: dict[asyncio.Timeout, None] = {}

    def add(self, patience: asyncio.Timeout) -> None:
        if len(self._held) >= _MOST_AT_ONCE:
            oldest = next(iter(self._held))
            del self._held[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        self._held[patience] = None

    def discard(self, patience: asyncio.Timeout) -> None:
        self._held.pop(patience, None)


def _after(body: bytes, receive: Receive) -> Receive:
    """`receive` once more, beginning with a body that was read from it."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Mapping[str, Any]:
        return waiting.pop() if waiting else await receive()

    return again


async def _refuse(path: str, error: GatewayError, send: _Send) -> None:
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
