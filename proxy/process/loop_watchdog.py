"""Tells when the event loop is blocked, and by what.

A timer on the loop measures how late it comes: so late is everything else in this process. A thread
looks whether the timer still comes; when it has not for a second, the thread logs where the loop's
thread is, once a minute at most: lines of code, and no values.
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
"""Seconds without a tick, after which the loop is called blocked."""
_QUIET = 60.0
_DEEPEST = 30


class Watchdog:
    def __init__(self, observe: Callable[[float], None] = LOOP_LAG.observe) -> None:
        self._observe = observe
        self._ticked_at = 0.0
        self._said_at = -_QUIET
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
        looked_at = monotonic()
        while not stopping.wait(_TICK):
            slept, looked_at = monotonic() - looked_at, monotonic()
            if slept > 4 * _TICK:
                # The whole process was stopped, or the machine is busy: not the loop's doing. A
                # tick that is due comes before the next look.
                continue
            for_so_long = looked_at - self._ticked_at
            if for_so_long > BLOCKED + _TICK and looked_at - self._said_at >= _QUIET:
                self._said_at = looked_at
                message, seconds = "the event loop is blocked for %.1f s", for_so_long - _TICK
                record = logger.makeRecord(
                    logger.name,
                    logging.WARNING,
                    __file__,
                    0,
                    message,
                    (seconds,),
                    None,
                    sinfo=_place(loop_thread),
                )
                logger.handle(record)


def _place(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "(its thread has ended)"
    # The newest calls are the ones that tell.
    return "".join(traceback.format_list(traceback.extract_stack(frame)[-_DEEPEST:]))
