"""A request's body, read within its bounds: so large, and no slower than one who is really there.

Whoever reads says how much may come, and has a set of what is being read: a time-out there can be
brought forward, by a gateway that stops or by one that needs the place.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from proxy.errors import ErrorCode, GatewayError

Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

_SLOWEST_BODY = 500
"""Bytes a second: who sends fewer, once his time is over, is stuck or an attacker. As Apache's."""


class Uploads(Protocol):
    def add(self, patience: asyncio.Timeout, /) -> None: ...
    def discard(self, patience: asyncio.Timeout, /) -> None: ...


async def read_body(
    receive: Receive,
    uploads: Uploads,
    *,
    most: int,
    seconds: float,
    declared: str | None = None,
    is_whole: bool = False,
) -> bytes | None:
    """The body; None when the client left before its end. Raises GatewayError.

    `seconds`: for it to begin, between two reads, and in all but for what the slowest may take.
    `declared`: its length, if the client said it. `is_whole`: whether all of it has come, so that
    there is nothing to wait for.
    """
    if int(declared or 0) > most:
        raise _too_large(most)
    if is_whole:
        return await _read(receive, None, most=most, seconds=seconds)
    patience = asyncio.timeout(None)
    uploads.add(patience)
    try:
        async with patience:
            return await _read(receive, patience, most=most, seconds=seconds)
    except TimeoutError as error:
        raise GatewayError(
            ErrorCode.REQUEST_TIMEOUT, "the request's body did not come in time"
        ) from error
    finally:
        uploads.discard(patience)


async def _read(
    receive: Receive, patience: asyncio.Timeout | None, *, most: int, seconds: float
) -> bytes | None:
    parts: list[bytes] = []
    size, loop = 0, asyncio.get_running_loop()
    began = loop.time()
    while True:
        if patience is not None:
            patience.reschedule(min(loop.time(), began + size / _SLOWEST_BODY) + seconds)
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(most: int) -> GatewayError:
    return GatewayError(ErrorCode.BODY_TOO_LARGE, f"the request is larger than {most} bytes")
