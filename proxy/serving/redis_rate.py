"""How many requests a key has made in the last minute, counted in Redis for all processes.

Of the strategies of `limits` the sliding window counter is used: it goes by Redis's clock, and not
by those of the nodes, and keeps two numbers for a key.

No request waits for a Redis that is gone or hangs, but those that find it out, for a moment. Until
it answers again every process counts for itself, and the log says so once a minute.
"""

import asyncio
import contextlib
import logging
import time
from time import monotonic

from limits import RateLimitItemPerMinute
from limits.aio.storage import RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from proxy.serving.rate import OwnRate
from proxy.telemetry import metrics

_MINUTE = 60.0
_PATIENCE = 0.15
"""Seconds to wait for Redis; a healthy one needs less than one of these milliseconds."""
_TRY_EVERY = 1.0
_LOG_EVERY = 60.0

logger = logging.getLogger("athena.rate")


class _PerMinute(RateLimitItemPerMinute):
    def key_for(self, *identifiers: bytes | str | int | float) -> str:
        """Without the limit: a limit that is edited counts what was asked before."""
        return "/".join(("rate", *map(str, identifiers)))


class SharedRate:
    """Counted in Redis, for all processes of all nodes; in memory while it is away."""

    def __init__(self, url: str) -> None:
        self._own = OwnRate()
        self._pool = ConnectionPool.from_url(
            url,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
            retry=Retry(NoBackoff(), 1),  # a connection from before Redis was restarted
        )
        self._storage = RedisStorage(
            url,
            implementation="redispy",
            key_prefix="athena",
            connection_pool=self._pool,  # type: ignore[arg-type]
        )
        self._limiter = SlidingWindowCounterRateLimiter(self._storage)
        self._return: asyncio.Task[None] | None = None
        """Waits for Redis to come back, while it is away."""
        self._logged_at = -_LOG_EVERY

    async def hit(self, key_id: int, limit: int) -> float | None:
        if self._return is None:
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await self._count(_PerMinute(limit), str(key_id))
            except (RedisError, OSError, TimeoutError) as error:
                self._leave(error)
        metrics.REDIS_FALLBACKS.inc()
        return await self._own.hit(key_id, limit)

    async def close(self) -> None:
        if self._return is not None:
            self._return.cancel()
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._pool.aclose()

    async def _count(self, item: _PerMinute, key_id: str) -> float | None:
        if await self._limiter.hit(item, key_id):
            return None
        window = await self._limiter.get_window_stats(item, key_id)
        return min(max(window.reset_time - time.time(), 1.0), _MINUTE)

    def _leave(self, error: Exception) -> None:
        if monotonic() - self._logged_at >= _LOG_EVERY:
            self._logged_at = monotonic()
            # Not the error's text: it may have the address, and that a password.
            logger.warning(
                "Redis does not answer (%s): each process counts for itself", type(error).__name__
            )
        if self._return is None:
            self._return = asyncio.create_task(self._wait_for_return())

    async def _wait_for_return(self) -> None:
        while True:
            await asyncio.sleep(_TRY_EVERY)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    if await self._storage.check():
                        break
        self._return = None
        logger.info("Redis answers again: requests are counted there")
