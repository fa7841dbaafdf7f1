"""Event-loop watchdog: measures the lag of the loop and logs the stack when it is blocked.

A timer on the loop measures how late it runs. A thread watches the timer: if it has not run for a
second, the thread logs the stack of the loop's thread, without values, at most once a minute.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from time import monotonic

from proxy.telemetry.metrics import LOOP_LAG

logger = logging.getLogger("athena.watchdog")

_TICK = 0.25
BLOCKED = 1.0
"""Seconds without a tick, after which the loop counts as blocked."""
_LOG_INTERVAL = 60.0
_MAX_FRAMES = 30


class Watchdog:
    def __init__(self, observe: Callable[[float], None] = LOOP_LAG.observe) -> None:
        self._observe = observe
        self._ticked_at = 0.0
        self._logged_at = -_LOG_INTERVAL
        self._stopping = threading.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        self._stopping = threading.Event()
        self._ticked_at = monotonic()
        arguments = (threading.get_ident(), self._stopping)
        threading.Thread(target=self._watch, args=arguments, name="watchdog", daemon=True).start()
        try:
            while True:
                await asyncio.sleep(_TICK)
                now = monotonic()
                self._observe(max(0.0, now - self._ticked_at - _TICK))
                self._ticked_at = now
        finally:
            self._stopping.set()

    def _watch(self, loop_thread: int, stopping: threading.Event) -> None:
        checked_at = monotonic()
        while not stopping.wait(_TICK):
            slept, checked_at = monotonic() - checked_at, monotonic()
            if slept > 4 * _TICK:
                # The whole process was stopped, or the machine is overloaded: the loop is not to
                # blame. An overdue tick runs before the next check.
                continue
            blocked_for = checked_at - self._ticked_at
            if blocked_for > BLOCKED + _TICK and checked_at - self._logged_at >= _LOG_INTERVAL:
                self._logged_at = checked_at
                message, seconds = "the event loop has been blocked for %.1f s", blocked_for - _TICK
                record = logger.makeRecord(
                    logger.name,
                    logging.WARNING,
                    __file__,
                    0,
                    message,
                    (seconds,),
                    None,
                    sinfo=_stack(loop_thread),
                )
                logger.handle(record)


def _stack(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "(the thread of the loop has ended)"
    # The innermost calls show the cause.
    return "".join(traceback.format_list(traceback.extract_stack(frame)[-_MAX_FRAMES:]))
