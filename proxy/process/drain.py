"""Graceful stop: reject new requests, let open answers finish, flush, then stop the server.

After the first signal new requests are rejected, but the process keeps listening, so that probes
and load balancers see it on old and new connections. Open answers may continue for the drain time.
Then, or at a second signal, they are aborted with an error in their dialect; clients that do not
read it are disconnected. The audit is flushed before uvicorn gets the signal, because uvicorn
closes open streams without an error. Every wait is limited: neither a dead database nor a full pipe
can keep the process alive.
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

# All in seconds.
_SAME_SIGNAL = 1.0
"""Ctrl-C reaches a worker twice, from the terminal and from its parent."""
_READ_ERROR = 1.0
"""For clients to read the error that ends their answer."""
_CANCEL = 1.0
"""For cancelled requests to end; a request that waits for a thread cannot be cancelled."""
_FLUSH, _FLUSH_AFTER_SECOND_SIGNAL = 8.0, 2.0
_EXIT = 10.0
"""From the flush to a forced exit, if something hangs."""

logger = logging.getLogger("athena.drain")


class Drain:
    def __init__(
        self,
        *,
        seconds: Callable[[], float],
        refuse: Callable[[], None],
        abort: Callable[[], None],
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        """`refuse` is called at the first signal, `abort` when the drain time is over."""
        self._seconds, self._refuse, self._abort, self._flush = seconds, refuse, abort, flush
        self._requests: set[asyncio.Task[None]] = set()
        self._reset()

    def _reset(self) -> None:
        self.is_draining = self.has_aborted = False
        self._signalled_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._flush_seconds = _FLUSH
        self._signal_server: Callable[[], None] = lambda: None

    def install_signal_handlers(self) -> None:
        """Handle signals before the server does."""
        self._reset()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            previous = signal.getsignal(number)

            def handle(received: int, frame: FrameType | None, previous: object = previous) -> None:
                if self._signalled_at is None:
                    self._signalled_at = time.monotonic()
                    if callable(previous):
                        self._signal_server = lambda: previous(received, frame)
                    loop.call_soon_threadsafe(self._start)
                elif time.monotonic() - self._signalled_at >= _SAME_SIGNAL:
                    loop.call_soon_threadsafe(self._shorten)

            with contextlib.suppress(ValueError):  # a test runs the server outside the main thread
                signal.signal(number, handle)

    def enter(self) -> "asyncio.Task[None]":
        """Register the current task as an open request; `leave` must follow."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._requests.add(task)
        return task

    def leave(self, task: "asyncio.Task[None]") -> None:
        self._requests.discard(task)
        if self.is_draining and not self._requests:
            self._end()

    def _start(self) -> None:
        self.is_draining = True
        self._refuse()
        if not self._requests:
            self._end()
            return
        seconds = self._seconds()
        logger.info(
            "stopping: %d open requests may continue for %g s", len(self._requests), seconds
        )
        self._timer = asyncio.get_running_loop().call_later(seconds, self._abort_all)

    def _shorten(self) -> None:
        self._flush_seconds = _FLUSH_AFTER_SECOND_SIGNAL
        if self._ending is not None:
            asyncio.get_running_loop().call_later(_FLUSH_AFTER_SECOND_SIGNAL, self._ending.cancel)
        elif not self.has_aborted:
            self._abort_all()

    def _abort_all(self) -> None:
        self.has_aborted = True
        self._abort()
        self._schedule(_READ_ERROR, self._cancel_all)

    def _cancel_all(self) -> None:
        """Cancel the requests whose client does not read, or that wait for something else."""
        for task in list(self._requests):
            task.cancel()
        self._schedule(_CANCEL, self._end)

    def _schedule(self, seconds: float, action: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, action)

    def _end(self) -> None:
        if self._ending is None:
            if self._timer is not None:
                self._timer.cancel()
            self._ending = asyncio.create_task(self._flush_and_stop())

    async def _flush_and_stop(self) -> None:
        try:
            async with asyncio.timeout(self._flush_seconds):
                await self._flush()
        except TimeoutError:
            logger.warning("stopping although the audit is not flushed: the journal keeps the rest")
        finally:
            threading.Thread(target=_force_exit, daemon=True).start()
            self._signal_server()


def _force_exit() -> None:
    """Exit although a thread hangs in the database or in a write to a pipe."""
    time.sleep(_EXIT)
    logging.shutdown()
    os._exit(0)
