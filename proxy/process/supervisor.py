"""Parent process of several workers: restarts dead workers and forwards signals immediately.

uvicorn's supervisor forwards the first signal half a second late and the second never, and keeps
the listening socket open while workers stop, so that new connections hang. This one closes it. If
the parent is killed, its workers notice and stop by themselves.
"""

import asyncio
import logging
import os
import signal
from contextlib import suppress
from multiprocessing import parent_process
from types import FrameType

from uvicorn.supervisors import Multiprocess

_JOIN_INTERVAL = 0.1
_PARENT_CHECK_INTERVAL = 1.0

logger = logging.getLogger("athena.supervisor")


async def stop_with_parent() -> None:
    """Stop this worker gracefully when its parent process is gone."""
    parent = parent_process()
    while parent is None or parent.is_alive():
        await asyncio.sleep(_PARENT_CHECK_INTERVAL)
    logger.warning("stopping because the parent process of this worker is gone")
    signal.raise_signal(signal.SIGTERM)


class Supervisor(Multiprocess):
    def run(self) -> None:
        self._signalled: set[int | None] = set()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._forward)
        super().run()

    def _forward(self, number: int, frame: FrameType | None) -> None:
        # A signal handler must not take a lock: the main thread may hold it.
        self.signal_queue.append(number)
        self._terminate({process.pid for process in self.processes})

    def _terminate(self, pids: set[int | None]) -> None:
        for pid in pids:
            if pid is not None:
                self._signalled.add(pid)
                with suppress(ProcessLookupError):  # it has already ended
                    os.kill(pid, signal.SIGTERM)

    def keep_subprocess_alive(self) -> None:
        if not self.signal_queue:
            super().keep_subprocess_alive()

    def terminate_all(self) -> None:
        """Signal the workers that were started after the last signal."""
        self._terminate({process.pid for process in self.processes} - self._signalled)
        for sock in self.sockets:
            sock.close()

    def join_all(self) -> None:
        for process in self.processes:
            while process.process.exitcode is None:
                process.process.join(_JOIN_INTERVAL)
