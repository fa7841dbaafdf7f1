"""How many requests a key has made in the last minute: in memory, or in a Redis that all share.

In memory the window is exact and of one process: a deque of moments for each key. The memory
storage of the library `limits` starts a thread for every key at every hit (0.3 ms with one key,
1.2 ms with a hundred; this takes 2 µs), so that only its storage in Redis is used.
"""

from collections import defaultdict, deque
from time import monotonic
from typing import Protocol

_MINUTE = 60.0


class Rate(Protocol):
    async def hit(self, key_id: int, limit: int) -> float | None:
        """Count a request; or the seconds to wait, if the minute has as many as it may."""

    async def close(self) -> None: ...


class OwnRate:
    """Counted by this process for itself."""

    def __init__(self) -> None:
        self._asked: defaultdict[int, deque[float]] = defaultdict(deque)
        """When the requests of the last minute came, the oldest first."""

    async def hit(self, key_id: int, limit: int) -> float | None:
        now, asked = monotonic(), self._asked[key_id]
        while asked and asked[0] <= now - _MINUTE:
            asked.popleft()
        if len(asked) >= limit:
            # The one whose minute must end: not the oldest, where the limit has been lowered.
            return (asked[-limit] if asked else now) + _MINUTE - now
        asked.append(now)
        return None

    async def close(self) -> None:
        pass


def rate_at(url: str) -> Rate:
    """In the Redis at the URL; in memory, if there is none."""
    if not url:
        return OwnRate()
    from proxy.serving.redis_rate import SharedRate  # its imports take a quarter of a second

    return SharedRate(url)
