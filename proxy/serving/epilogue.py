"""What an upstream sends behind the end of its message: `[DONE]`, a comment.

It matters only where its bytes go on as they are, and only if it comes at once.
"""

import asyncio
from collections.abc import AsyncGenerator

import httpx

from formats import Event
from proxy.audit.exchange import Exchange
from proxy.serving.attempt import Begun

_PATIENCE = 0.5
"""Seconds from the end of the message."""
_MOST_BYTES = 64 * 1024


async def epilogue(begun: Begun, exchange: Exchange) -> AsyncGenerator[list[Event], None]:
    """The events of every read, until the end of the answer or of what is worth waiting for."""
    deadline, size = asyncio.get_running_loop().time() + _PATIENCE, 0
    while size < _MOST_BYTES:
        try:
            async with asyncio.timeout_at(deadline):
                data = await begun.read()
        except (TimeoutError, httpx.TransportError):
            break  # all that matters was said
        if not data:
            if data is None:
                continue
            break
        exchange.received(data)
        size += len(data)
        yield begun.pipeline.decode(data)
    yield begun.pipeline.decode_end()
