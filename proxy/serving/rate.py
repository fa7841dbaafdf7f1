"""Counts the requests of each key in the last minute: in memory, or in a shared Redis.

In memory the window is exact, and belongs to one process: a deque of times for each key. The
library `limits` is used for Redis only: its memory storage starts a thread per key for every
request, which takes 0.3 ms with one key and 1.2 ms with a hundred. The deque takes 2 µs.
"""

from collections import defaultdict, deque
from time import monotonic
from typing import Protocol

_MINUTE = 60.0


class Rate(Protocol):
    async def count_request(self, key_id: int, limit: int) -> float | None:
        """Count a request and return None; or return the seconds to wait if `limit` is reached."""

    async def close(self) -> None: ...


class LocalRate:
    """Counts the requests of this process."""

    def __init__(self) -> None:
        self._times: defaultdict[int, deque[float]] = defaultdict(deque)
        """Times of each key's requests in the last minute, oldest first."""

    async def count_request(self, key_id: int, limit: int) -> float | None:
        now, times = monotonic(), self._times[key_id]
        while times and times[0] <= now - _MINUTE:
            times.popleft()
        if len(times) >= limit:
            # Not the oldest: after the limit was lowered, several must expire.
            return (times[-limit] if times else now) + _MINUTE - now
        times.append(now)
        return None

    async def close(self) -> None:
        pass


def rate_at(url: str) -> Rate:
    """Return a counter in the Redis at `url`, or in memory if it is empty."""
    if not url:
        return LocalRate()
    from proxy.serving.redis_rate import RedisRate  # its imports take a quarter of a second

    return RedisRate(url)
