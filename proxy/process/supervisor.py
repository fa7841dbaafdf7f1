"""The parent of several workers: it starts them again when they die, and passes every signal on.

uvicorn's own tells its workers of the first signal half a second late, of a second one never, and
keeps the listening socket while they stop, so that new connections hang. Here a worker hears at
once, and when the last one is gone nobody listens. A parent that was killed passes nothing on: its
workers find that out.
"""

import asyncio
import logging
import os
import signal
from contextlib import suppress
from multiprocessing import parent_process
from types import FrameType

from uvicorn.supervisors import Multiprocess

_LOOK_AGAIN = 0.1
_LOOK_FOR_PARENT = 1.0

logger = logging.getLogger("athena.supervisor")


async def follow_parent() -> None:
    """Stop a worker as a signal would, when its parent is gone: nobody else would tell it to."""
    parent = parent_process()
    while parent is None or parent.is_alive():
        await asyncio.sleep(_LOOK_FOR_PARENT)
    logger.warning("stopping: the parent of this worker is gone")
    signal.raise_signal(signal.SIGTERM)


class Supervisor(Multiprocess):
    def run(self) -> None:
        self._told: set[int | None] = set()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._pass_on)
        super().run()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        # No lock may be taken here: the main thread may have it.
        self.signal_queue.append(number)
        self._tell({process.pid for process in self.processes})

    def _tell(self, pids: set[int | None]) -> None:
        for pid in pids:
            if pid is not None:
                self._told.add(pid)
                with suppress(ProcessLookupError):  # it has ended by itself
                    os.kill(pid, signal.SIGTERM)

    def keep_subprocess_alive(self) -> None:
        if not self.signal_queue:
            super().keep_subprocess_alive()

    def terminate_all(self) -> None:
        """Tell those that were started meanwhile; the others know."""
        self._tell({process.pid for process in self.processes} - self._told)
        for sock in self.sockets:
            sock.close()

    def join_all(self) -> None:
        for process in self.processes:
            while process.process.exitcode is None:
                process.process.join(_LOOK_AGAIN)
