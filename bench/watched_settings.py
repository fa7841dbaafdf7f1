"""Settings of a gateway whose watchdog ticks a thousand times as often, and writes down each delay.

`bench.blocks` starts it. `BLOCKS_FILE` gets one line of JSON per delay of the event loop: when it
ended and its seconds, on the clock that all processes share, the CPU time of the process and of the
loop's thread in it, and the innermost calls of each thread that were seen during it.
"""

import asyncio
import json
import os
import sys
import threading
import traceback
from time import CLOCK_MONOTONIC, clock_gettime, process_time, sleep, thread_time
from types import FrameType

from django.apps import AppConfig

from athena_site.settings import *  # noqa: F403
from athena_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.watched_settings.WatchedLoop"]
_TICK = 0.001
_SHORT = 0.010
"""Seconds of a delay that is not written down: the scheduler alone causes such ones."""
_SUSPICIOUS = 0.025
"""Seconds after which the calls are read."""
_FRAMES = 4
_WAITING = ("wait", "_worker")
"""Functions of threads that have nothing to do."""


class WatchedLoop(AppConfig):
    name = __name__
    label = "watched_loop"

    def ready(self) -> None:
        from proxy.process.loop_watchdog import Watchdog

        Watchdog.run = _run  # type: ignore[assignment,method-assign]


class _Tick:
    at = float("inf")
    calls = ""


async def _run(_watchdog: object) -> None:
    tick = _Tick()
    arguments = (tick, threading.get_ident())
    threading.Thread(target=_watch, args=arguments, name="blocks", daemon=True).start()
    with open(os.environ["BLOCKS_FILE"], "a", buffering=1) as file:
        while True:
            tick.at, all_cpu, cpu = clock_gettime(CLOCK_MONOTONIC), process_time(), thread_time()
            await asyncio.sleep(_TICK)
            ended = clock_gettime(CLOCK_MONOTONIC)
            if (seconds := ended - tick.at - _TICK) > _SHORT:
                block = {"ended": ended, "seconds": seconds, "calls": tick.calls}
                block |= {"cpu": process_time() - all_cpu, "loop_cpu": thread_time() - cpu}
                file.write(json.dumps(block) + "\n")
            tick.calls = ""


def _watch(tick: _Tick, loop_thread: int) -> None:
    while True:
        sleep(_TICK * 5)
        if clock_gettime(CLOCK_MONOTONIC) - tick.at > _SUSPICIOUS and not tick.calls:
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            tick.calls = "\n".join(
                f"{'loop' if ident == loop_thread else names.get(ident)}: {_innermost(frame)}"
                for ident, frame in sys._current_frames().items()
                if ident != threading.get_ident() and frame.f_code.co_name not in _WAITING
            )


def _innermost(frame: FrameType) -> str:
    stack = traceback.extract_stack(frame)[-_FRAMES:]
    return " > ".join(
        f"{call.filename.rsplit('/', 1)[-1]}:{call.name}:{call.lineno}" for call in stack
    )
