"""What a key may still ask for: so many requests in any minute, so many answered at once.

Counted in memory, by each process for itself. Limits come with the key of a request, so that an
edit is live with the configuration's next version, and what is open or was asked stays counted.
A request that is refused counts for nothing.
"""

from collections import defaultdict, deque
from math import ceil
from time import monotonic

from formats import FailureKind
from proxy.errors import ErrorCode, GatewayError
from proxy.exchange import Exchange
from proxy.snapshot import Key

_MINUTE = 60.0
_TRY_AGAIN = 1
"""Seconds: nobody knows when one of the key's answers will end."""


class Quota:
    def __init__(self) -> None:
        self._open: dict[int, set[Exchange]] = {}
        self._asked: defaultdict[int, deque[float]] = defaultdict(deque)
        """When the requests of the last minute came, the oldest first."""

    @property
    def open(self) -> int:
        """How many requests hold a place."""
        return sum(map(len, self._open.values()))

    def admit(self, exchange: Exchange, key: Key) -> None:
        """Give the request a place until `release`; raises GatewayError if there is none."""
        held = self._open.setdefault(key.id, set())
        if key.max_streams is not None and len(held) >= key.max_streams:
            raise _refusal(
                f"this key may have {key.max_streams} answered at once, and {len(held)} are",
                ErrorCode.KEY_BUSY,
                _TRY_AGAIN,
            )
        if key.requests_per_minute is not None:
            self._count(key.id, key.requests_per_minute, monotonic())
        held.add(exchange)

    def release(self, exchange: Exchange) -> None:
        """Give back the place of a request, if it has one."""
        if exchange.key is not None and (held := self._open.get(exchange.key.id)) is not None:
            held.discard(exchange)
            if not held:
                del self._open[exchange.key.id]

    def _count(self, key_id: int, limit: int, now: float) -> None:
        asked = self._asked[key_id]
        while asked and asked[0] <= now - _MINUTE:
            asked.popleft()
        if len(asked) >= limit:
            # The one whose minute must end: not the oldest, where the limit has been lowered.
            wait = (asked[-limit] if asked else now) + _MINUTE - now
            raise _refusal(
                f"this key may make {limit} requests a minute", ErrorCode.KEY_RATE_LIMIT, ceil(wait)
            )
        asked.append(now)


def _refusal(message: str, code: ErrorCode, retry_after: int) -> GatewayError:
    return GatewayError(
        message,
        kind=FailureKind.RATE_LIMIT,
        code=code,
        source="client",
        retry_after=retry_after,
    )
