"""A process of the gateway says every two seconds that it is there, and what it is at.

A thread of its own writes one small row. Nothing depends on it but what the dashboard shows: when
the database is away, the next time will do.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial

from django.db import Error
from django.db.models.functions import Now

from proxy.database.connections import renew_connection
from proxy.database.outage import reason
from proxy.models import GatewayProcess

logger = logging.getLogger("athena.heartbeat")

_INTERVAL = 2.0
_PATIENCE = 2.0
_FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class State:
    configuration_version: int | None
    open_streams: int
    audit_waiting: int
    audit_dropped: int


class Heartbeat:
    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._token = ""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="heartbeat")

    async def run(self) -> None:
        """Report until cancelled."""
        self._token = secrets.token_hex(8)
        await self._do(self._forget_the_dead)
        while True:
            await self._do(partial(self._report, self._state()))
            await asyncio.sleep(_INTERVAL)

    async def stop(self) -> None:
        """Say that this process is no more."""
        with suppress(TimeoutError):  # the database is frozen; others forget this process later
            work = GatewayProcess.objects.filter(token=self._token).delete
            await asyncio.wait_for(self._do(work), _PATIENCE)

    async def _do(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, _tried, work)

    def _report(self, state: State) -> None:
        seen = {**asdict(state), "seen_at": Now()}
        if not GatewayProcess.objects.filter(token=self._token).update(**seen):
            name = f"{socket.gethostname()[:80]}:{os.getpid()}"
            GatewayProcess.objects.create(token=self._token, name=name, **asdict(state))

    def _forget_the_dead(self) -> None:
        """Rows of processes that were killed. Others follow on them, so that a start is in time."""
        GatewayProcess.objects.filter(seen_at__lt=Now() - _FORGOTTEN).delete()


def _tried(work: Callable[[], object]) -> None:
    renew_connection()
    try:
        work()
    except Error as error:
        logger.debug("the database takes no report: %s", reason(error))
    except Exception:
        # It must not end the reports: the next may do.
        logger.exception("a report has a defect")
