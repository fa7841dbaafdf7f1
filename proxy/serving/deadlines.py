"""Deadlines of an answer that has started, and the moment at which the client needs a ping.

There are three: without any bytes, without progress, and in total. An upstream that keeps its
connection alive with comments or pings is not idle and yet makes no progress; each deadline has an
error code of its own.
"""

import asyncio
from collections.abc import Callable

from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, UpstreamFailed

_RECHECK_SECONDS = 0.25


class Deadlines:
    def __init__(
        self, upstream: Upstream, *, ping_after: float, now: float, requested_at: float
    ) -> None:
        self._upstream = upstream
        self._ping_after = ping_after
        self._end_at = requested_at + upstream.total_timeout
        self.received_at = now
        """Time at which the upstream last sent bytes."""
        self.advanced_at = now
        """Time at which the upstream last sent an event other than a comment or ping."""
        self.sent_at = now
        """Time at which bytes were last sent to the client."""
        self.no_failure_before = now
        """Saves the check for each read: the times above only ever get later."""

    @property
    def ping_at(self) -> float:
        return self.sent_at + self._ping_after

    @property
    def due_at(self) -> float:
        """Time at which a waiting read must be interrupted: to send a ping, or to fail."""
        return min(self.ping_at, self._failure_at)

    def end_by(self, moment: float) -> None:
        """Bring the end of the answer forward."""
        self._end_at = min(self._end_at, moment)
        self.no_failure_before = min(self.no_failure_before, self._end_at)

    def failure(self, now: float) -> UpstreamFailed | None:
        """Return the error of the deadline that has passed, if one has."""
        if now < self.no_failure_before:
            return None
        self.no_failure_before = self._failure_at
        upstream = self._upstream
        if now >= self.received_at + upstream.idle_timeout:
            reason = f"sent nothing for {upstream.idle_timeout:g} s"
            return _timeout(upstream, reason, ErrorCode.UPSTREAM_IDLE)
        if now >= self.advanced_at + upstream.progress_timeout:
            reason = f"sent only comments or pings for {upstream.progress_timeout:g} s"
            return _timeout(upstream, reason, ErrorCode.UPSTREAM_NO_PROGRESS)
        if now >= self._end_at:
            reason = f"did not finish its answer within {upstream.total_timeout:g} s"
            return _timeout(upstream, reason, ErrorCode.STREAM_TOO_LONG)
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
    """Calls back when a deadline is due. One timer serves all reads of an answer."""

    def __init__(self, deadlines: Deadlines, on_due: Callable[[], None]) -> None:
        self._deadlines, self._on_due = deadlines, on_due
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_at(deadlines.due_at, self._tick)

    def cancel(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        now, due_at = self._loop.time(), self._deadlines.due_at
        if now >= due_at:
            self._on_due()
        self._timer = self._loop.call_at(max(due_at, now + _RECHECK_SECONDS), self._tick)


def _timeout(upstream: Upstream, reason: str, code: ErrorCode) -> UpstreamFailed:
    return UpstreamFailed(code, f"the upstream {upstream.name} {reason}")
