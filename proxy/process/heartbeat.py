"""Heartbeat: every two seconds a process writes its state to its row, for the dashboard.

A separate thread writes the row. During a database outage the heartbeat is skipped.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial

from django.db import Error
from django.db.models.functions import Now

from proxy.database.connections import renew_connection
from proxy.database.outage import safe_reason
from proxy.models import GatewayProcess

logger = logging.getLogger("athena.heartbeat")

_INTERVAL = 2.0
_STOP_TIMEOUT = 2.0
_DEAD_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class State:
    configuration_version: int | None
    open_streams: int
    audit_waiting: int
    audit_dropped: int
    suspected: Mapping[str, float] = field(default_factory=dict)
    """Upstreams that sent data without a request; see `GatewayProcess`."""


class Heartbeat:
    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._token = ""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="heartbeat")

    async def run(self) -> None:
        """Write heartbeats until cancelled."""
        self._token = secrets.token_hex(8)
        await self._do(self._delete_dead)
        while True:
            await self._do(partial(self._write, self._state()))
            await asyncio.sleep(_INTERVAL)

    async def stop(self) -> None:
        """Delete the row of this process."""
        with suppress(TimeoutError):  # the database hangs; other processes delete the row later
            work = GatewayProcess.objects.filter(token=self._token).delete
            await asyncio.wait_for(self._do(work), _STOP_TIMEOUT)

    async def _do(self, work: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, _run, work)

    def _write(self, state: State) -> None:
        fields = {**asdict(state), "seen_at": Now()}
        if not GatewayProcess.objects.filter(token=self._token).update(**fields):
            name = f"{socket.gethostname()[:80]}:{os.getpid()}"
            GatewayProcess.objects.create(token=self._token, name=name, **asdict(state))

    def _delete_dead(self) -> None:
        """Delete the rows of processes that were killed."""
        GatewayProcess.objects.filter(seen_at__lt=Now() - _DEAD_AFTER).delete()


def _run(work: Callable[[], object]) -> None:
    renew_connection()
    try:
        work()
    except Error as error:
        logger.debug("heartbeat not written, the database is unavailable: %s", safe_reason(error))
    except Exception:
        # Later heartbeats may work.
        logger.exception("heartbeat not written because of a defect")
