"""Reads a request body; enforces a maximum size and a minimum rate.

While a body is read, its timeout is in the caller's `uploads`. The caller can bring it forward when
the gateway stops, or to make room for another body.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from proxy.errors import ErrorCode, GatewayError

Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

_MIN_BYTES_PER_SECOND = 500
"""A slower client is stuck, or is an attacker. Apache's mod_reqtimeout has the same default."""


class Uploads(Protocol):
    """The timeouts of the bodies that are being read."""

    def add(self, timeout: asyncio.Timeout, /) -> None: ...
    def discard(self, timeout: asyncio.Timeout, /) -> None: ...


async def read_body(
    receive: Receive,
    uploads: Uploads,
    *,
    max_bytes: int,
    seconds: float,
    content_length: str | None = None,
    is_received: bool = False,
) -> bytes | None:
    """Return the body; None if the client disconnected before its end. Raises GatewayError.

    `seconds`: limit on the wait for each part, and on the whole body beyond the time that the
    minimum rate allows it. `is_received`: the whole body has arrived, so no timeout is needed.
    """
    if int(content_length or 0) > max_bytes:
        raise _too_large(max_bytes)
    if is_received:
        return await _read(receive, None, max_bytes=max_bytes, seconds=seconds)
    timeout = asyncio.timeout(None)
    uploads.add(timeout)
    try:
        async with timeout:
            return await _read(receive, timeout, max_bytes=max_bytes, seconds=seconds)
    except TimeoutError as error:
        message = "the request's body did not arrive in time"
        raise GatewayError(ErrorCode.REQUEST_TIMEOUT, message) from error
    finally:
        uploads.discard(timeout)


async def _read(
    receive: Receive, timeout: asyncio.Timeout | None, *, max_bytes: int, seconds: float
) -> bytes | None:
    parts: list[bytes] = []
    size, loop = 0, asyncio.get_running_loop()
    started = loop.time()
    while True:
        if timeout is not None:
            allowed_until = started + size / _MIN_BYTES_PER_SECOND
            timeout.reschedule(min(loop.time(), allowed_until) + seconds)
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(max_bytes: int) -> GatewayError:
    return GatewayError(ErrorCode.BODY_TOO_LARGE, f"the request is larger than {max_bytes} bytes")
