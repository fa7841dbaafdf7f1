"""How a process stops: it refuses new work, lets open answers finish, and tells the server last.

With the first signal nothing new is begun, but the process goes on listening, so that probes and
balancers are told so on connections of any age. What is open may go on for the drain time; then, or
with a second signal, it is cut with an error in its own dialect, and whoever does not read that is
left. The audit is flushed, and only then does the server hear of the signal: it closes its sockets
and ends open streams without a word. Every wait here has an end: a thread that hangs in a dead
database, or a full pipe, cannot keep the process.
"""

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from types import FrameType

# Ctrl-C reaches a worker twice, from the terminal and from its parent: that is one signal.
_SAME_SIGNAL = 1.0
_READING = 1.0
"""Seconds for a client to take the error that ends its answer."""
_CANCELLING = 1.0
"""Seconds for a request that was cancelled: one that waits in a thread cannot be."""
_FLUSHING, _FLUSHING_IN_HASTE = 8.0, 2.0
_LEAVING = 10.0
"""Seconds from the last flush to the process's end, if something hangs on the way."""

logger = logging.getLogger("athena.drain")


class Drain:
    def __init__(
        self,
        *,
        seconds: Callable[[], float],
        refuse: Callable[[], None],
        cut: Callable[[], None],
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        """`refuse` is called when no new work is taken any more, `cut` when time is up."""
        self._seconds, self._refuse, self._cut, self._flush = seconds, refuse, cut, flush
        self._requests: set[asyncio.Task[None]] = set()
        self._reset()

    def _reset(self) -> None:
        self.is_begun = self.is_cut = False
        self._signalled_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._flushing = _FLUSHING
        self._tell_server: Callable[[], None] = lambda: None

    def listen(self) -> None:
        """Hear of the end before the server does."""
        self._reset()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            previous = signal.getsignal(number)

            def handle(received: int, frame: FrameType | None, previous: object = previous) -> None:
                if self._signalled_at is None:
                    self._signalled_at = time.monotonic()
                    if callable(previous):
                        self._tell_server = lambda: previous(received, frame)
                    loop.call_soon_threadsafe(self._begin)
                elif time.monotonic() - self._signalled_at >= _SAME_SIGNAL:
                    loop.call_soon_threadsafe(self._hurry)

            with contextlib.suppress(ValueError):  # not the main thread: a test runs the server
                signal.signal(number, handle)

    def enter(self) -> "asyncio.Task[None]":
        """A request has come; whatever happens, it must leave."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._requests.add(task)
        return task

    def leave(self, task: "asyncio.Task[None]") -> None:
        self._requests.discard(task)
        if self.is_begun and not self._requests:
            self._end()

    def _begin(self) -> None:
        self.is_begun = True
        self._refuse()
        if not self._requests:
            self._end()
            return
        seconds = self._seconds()
        logger.info("stopping; what is open may go on for %g s: %d", seconds, len(self._requests))
        self._timer = asyncio.get_running_loop().call_later(seconds, self._cut_all)

    def _hurry(self) -> None:
        self._flushing = _FLUSHING_IN_HASTE
        if self._ending is not None:
            asyncio.get_running_loop().call_later(_FLUSHING_IN_HASTE, self._ending.cancel)
        elif not self.is_cut:
            self._cut_all()

    def _cut_all(self) -> None:
        self.is_cut = True
        self._cut()
        self._later(_READING, self._cancel_all)

    def _cancel_all(self) -> None:
        """Of those who do not read, or wait for something that does not come."""
        for task in list(self._requests):
            task.cancel()
        self._later(_CANCELLING, self._end)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, action)

    def _end(self) -> None:
        if self._ending is None:
            if self._timer is not None:
                self._timer.cancel()
            self._ending = asyncio.create_task(self._flush_and_go())

    async def _flush_and_go(self) -> None:
        try:
            async with asyncio.timeout(self._flushing):
                await self._flush()
        except TimeoutError:
            logger.warning("stopping, though something is not written yet")
        finally:
            threading.Thread(target=_leave, daemon=True).start()
            self._tell_server()


def _leave() -> None:
    """End a process that hangs: in a thread that waits for a database, in a write to a pipe."""
    time.sleep(_LEAVING)
    logging.shutdown()
    os._exit(0)
