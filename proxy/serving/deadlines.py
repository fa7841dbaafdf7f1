"""How long an answer that has begun may take: without a byte, without an event, and in all.

An upstream that keeps its connection alive with comments or pings is not silent, and yet nothing
comes of it: each limit has a moment and an error code of its own. Beside them is the moment at
which the client has waited long enough for a ping.
"""

import asyncio
from collections.abc import Callable

from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, UpstreamFailed

_RECHECK = 0.25


class Deadlines:
    def __init__(self, upstream: Upstream, *, ping_after: float, now: float, since: float) -> None:
        """`since` is when the upstream was asked."""
        self._upstream = upstream
        self._ping_after = ping_after
        self._end_at = since + upstream.total_timeout
        self.received_at = now
        """When bytes came from the upstream, last."""
        self.advanced_at = now
        """When an event came with them that was more than a sign of life."""
        self.sent_at = now
        """When bytes went to the client."""
        self._no_failure_before = now
        """Saves comparisons for every read: the moments above only ever get later."""

    @property
    def ping_at(self) -> float:
        return self.sent_at + self._ping_after

    @property
    def due(self) -> float:
        """When a read has waited long enough: for a ping, or to fail."""
        return min(self.ping_at, self._failure_at)

    def failure(self, now: float) -> UpstreamFailed | None:
        """Why the answer must end, if it must."""
        if now < self._no_failure_before:
            return None
        self._no_failure_before = self._failure_at
        upstream = self._upstream
        if now >= self.received_at + upstream.idle_timeout:
            said = f"was silent for {upstream.idle_timeout:g} s"
            return _late(upstream, said, ErrorCode.UPSTREAM_IDLE)
        if now >= self.advanced_at + upstream.progress_timeout:
            said = f"sent nothing but signs of life for {upstream.progress_timeout:g} s"
            return _late(upstream, said, ErrorCode.UPSTREAM_NO_PROGRESS)
        if now >= self._end_at:
            said = f"did not come to an end within {upstream.total_timeout:g} s"
            return _late(upstream, said, ErrorCode.STREAM_TOO_LONG)
        return None

    @property
    def _failure_at(self) -> float:
        upstream = self._upstream
        return min(
            self.received_at + upstream.idle_timeout,
            self.advanced_at + upstream.progress_timeout,
            self._end_at,
        )


class Alarm:
    """Calls somebody when a deadline is due. One timer serves all reads of a stream."""

    def __init__(self, deadlines: Deadlines, ring: Callable[[], None]) -> None:
        self._deadlines, self._ring = deadlines, ring
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_at(deadlines.due, self._tick)

    def cancel(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        now, due = self._loop.time(), self._deadlines.due
        if now >= due:
            self._ring()
        self._timer = self._loop.call_at(max(due, now + _RECHECK), self._tick)


def _late(upstream: Upstream, said: str, code: ErrorCode) -> UpstreamFailed:
    return UpstreamFailed(code, f"the upstream {upstream.name} {said}")
