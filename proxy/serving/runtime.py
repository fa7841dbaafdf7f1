"""What one server process has: its configuration, its client, its open answers, and its end.

How it stops is told in `drain`; here is what that means for the parts. No wait of `stop` is longer
than it must be: a part that hangs is left.
"""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from django.conf import settings

from proxy.audit import measures
from proxy.audit.exchange import Exchange
from proxy.audit.journal.journal import Journal
from proxy.audit.recorder import Audit
from proxy.audit.retention import Retention
from proxy.configuration.live import Configuration, configuration
from proxy.configuration.snapshot import Snapshot
from proxy.errors import ErrorCode, GatewayError
from proxy.http.request_limits import Bounds
from proxy.process.drain import Drain
from proxy.process.heartbeat import Heartbeat, State
from proxy.process.loop_watchdog import Watchdog
from proxy.process.supervisor import follow_parent
from proxy.serving.authentication import revoked
from proxy.serving.quota import Quota
from proxy.serving.rate import rate_at
from proxy.serving.relay import Relay
from proxy.telemetry import metrics
from proxy.telemetry.log_writer import dropped_lines
from proxy.upstreams.client import UpstreamClient

_STOPPING = 4.0
"""Seconds in which the parts of a process say goodbye; each has a shorter patience of its own."""
_FIRST_BOUNDS = Bounds()
_MEASURED_EVERY = 1.0

logger = logging.getLogger("athena.runtime")


class Runtime:
    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        configuration.on_change = self._cut_revoked
        self.client: UpstreamClient
        self.audit = Audit(
            Journal(Path(settings.DATA_DIR) / "journal", most_bytes=settings.SPOOL_BYTES),
            also=configuration.write_uses,
        )
        self.retention = Retention()
        self.quota = Quota(settings.WORKERS)
        self.counting = Quota(settings.WORKERS)
        """Places of requests whose tokens are counted: an open stream must not be in their way."""
        self.heartbeat = Heartbeat(self.state)
        self.watchdog = Watchdog()
        self.relays: set[Relay] = set()
        self.uploads: set[asyncio.Timeout] = set()
        self.drain = Drain(
            seconds=lambda: self.configuration.drain_time,
            refuse=self._refuse_uploads,
            cut=self._cut_all,
            flush=self.audit.flush,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.client = UpstreamClient(transport=settings.UPSTREAM_TRANSPORT)
        self.quota.rate = rate_at(settings.REDIS_URL)
        self.audit.start()
        await self.configuration.start()
        self._tasks = [
            asyncio.create_task(self.configuration.watch()),
            asyncio.create_task(self.audit.run()),
            asyncio.create_task(self.retention.run()),
            asyncio.create_task(self._measure()),
            asyncio.create_task(self.heartbeat.run()),
            asyncio.create_task(self.watchdog.run()),
            asyncio.create_task(follow_parent()),
        ]
        self.drain.listen()

    async def stop(self) -> None:
        self.retention.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._together(
            self.audit.stop(),
            self.heartbeat.stop(),
            self.client.aclose(),
            self.quota.rate.close(),
        )

    async def _together(self, *parts: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.create_task(part) for part in parts]
        _, late = await asyncio.wait(tasks, timeout=_STOPPING)
        for task in late:
            task.cancel()
        if late:
            logger.warning("stopped, though something is not written yet")

    def state(self) -> State:
        """What this process is at."""
        return State(
            configuration_version=self.configuration.version or None,
            open_streams=len(self.relays),
            audit_waiting=self.audit.waiting,
            audit_dropped=self.audit.dropped,
        )

    def degraded(self) -> list[str]:
        """What is wrong while answers are given all the same."""
        troubles = {
            "database unreachable": not self.configuration.is_fresh,
            "audit waiting for the database": self.audit.is_behind,
            "journal not writable": not self.audit.has_disk,
            "journal full": self.audit.journal.is_full,
        }
        return [trouble for trouble, is_so in troubles.items() if is_so]

    def bounds(self) -> Bounds:
        """Those of the configuration; before there is one, others."""
        try:
            return self.configuration.current.bounds
        except GatewayError:
            return _FIRST_BOUNDS

    def admit(self) -> None:
        """Raise GatewayError when no new work is taken."""
        if self.drain.is_begun:
            raise _restarting()

    def end(self, exchange: Exchange, status: int) -> None:
        """Take leave of an exchange, however it ended."""
        self.quota.release(exchange)
        self.counting.release(exchange)
        try:
            measures.observe(exchange, status)
        except Exception:
            logger.exception("an exchange is not in the metrics")
        self.audit.submit(exchange, status)

    async def _measure(self) -> None:
        dropped = 0
        while True:
            already_counted, dropped = dropped, dropped_lines()
            metrics.LOG_DROPPED.inc(dropped - already_counted)
            state = self.state()
            metrics.measure(
                open_streams=state.open_streams,
                places=self.quota.open,
                held=(relay.held_bytes for relay in self.relays),
                waiting=state.audit_waiting,
                journal_bytes=self.audit.journal.size,
                version=state.configuration_version or 0,
            )
            await asyncio.sleep(_MEASURED_EVERY)

    def _cut_all(self) -> None:
        for relay in list(self.relays):
            relay.cut(_restarting())
        self._refuse_uploads()

    def _cut_revoked(self, snapshot: Snapshot) -> None:
        """End the open answers of keys that are no more: who revokes one wants no more of it."""
        held = {key.id for key in snapshot.keys.values()}
        for relay in list(self.relays):
            if relay.key is not None and relay.key.id not in held:
                relay.cut(revoked())

    def _refuse_uploads(self) -> None:
        """A request that is still being sent would be refused at its end."""
        for patience in self.uploads:
            patience.reschedule(asyncio.get_running_loop().time())


def _restarting() -> GatewayError:
    return GatewayError(
        ErrorCode.DRAINING,
        "the gateway is being restarted: try again",
    )


runtime = Runtime(configuration)
