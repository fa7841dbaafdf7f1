"""Counts the requests of each key in the last minute in Redis, for all processes of all nodes.

Uses the sliding window counter of the library `limits`: it uses the clock of Redis, not of the
nodes, and keeps two numbers per key.

While Redis is unavailable, every process counts for itself, and the log says so once a minute. Only
the requests that discover the outage wait for Redis, for a moment.
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

from proxy.serving.rate import LocalRate
from proxy.telemetry import metrics

_MINUTE = 60.0
_TIMEOUT_SECONDS = 0.15
"""A healthy Redis answers in less than a millisecond."""
_RECONNECT_SECONDS = 1.0
_LOG_SECONDS = 60.0

logger = logging.getLogger("athena.rate")


class _PerMinute(RateLimitItemPerMinute):
    def key_for(self, *identifiers: bytes | str | int | float) -> str:
        """Leave the limit out of the key: after an edit, earlier requests still count."""
        return "/".join(("rate", *map(str, identifiers)))


class RedisRate:
    def __init__(self, url: str) -> None:
        self._local = LocalRate()
        self._pool = ConnectionPool.from_url(
            url,
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 1),  # for connections from before Redis was restarted
        )
        self._storage = RedisStorage(
            url,
            implementation="redispy",
            key_prefix="athena",
            connection_pool=self._pool,  # type: ignore[arg-type]
        )
        self._limiter = SlidingWindowCounterRateLimiter(self._storage)
        self._reconnecting: asyncio.Task[None] | None = None
        """Runs while Redis is unavailable."""
        self._logged_at = -_LOG_SECONDS

    async def count_request(self, key_id: int, limit: int) -> float | None:
        if self._reconnecting is None:
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    return await self._count(_PerMinute(limit), str(key_id))
            except (RedisError, OSError, TimeoutError) as error:
                self._on_failure(error)
        metrics.REDIS_FALLBACKS.inc()
        return await self._local.count_request(key_id, limit)

    async def close(self) -> None:
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await self._pool.aclose()

    async def _count(self, item: _PerMinute, key_id: str) -> float | None:
        if await self._limiter.hit(item, key_id):
            return None
        window = await self._limiter.get_window_stats(item, key_id)
        return min(max(window.reset_time - time.time(), 1.0), _MINUTE)

    def _on_failure(self, error: Exception) -> None:
        if monotonic() - self._logged_at >= _LOG_SECONDS:
            self._logged_at = monotonic()
            # The error's text may contain the address, and that may contain a password.
            logger.warning(
                "Redis does not answer (%s): each process counts requests for itself",
                type(error).__name__,
            )
        if self._reconnecting is None:
            self._reconnecting = asyncio.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        while True:
            await asyncio.sleep(_RECONNECT_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    if await self._storage.check():
                        break
        self._reconnecting = None
        logger.info("Redis answers again: requests are counted there")
