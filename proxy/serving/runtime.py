"""The parts of one server process: configuration, upstream client, audit, quotas, open answers.

Starts and stops them. `process.drain` decides when open answers are aborted; this module does it.
`stop` gives up on a part that hangs.
"""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from django.conf import settings

from proxy.audit import exchange_metrics
from proxy.audit.exchange import Exchange
from proxy.audit.journal.journal import Journal
from proxy.audit.recorder import AuditRecorder
from proxy.audit.retention import Retention
from proxy.configuration.live import Configuration, configuration
from proxy.configuration.upstream import address_of
from proxy.errors import ErrorCode, GatewayError
from proxy.http.request_limits import RequestLimits
from proxy.process.drain import Drain
from proxy.process.heartbeat import Heartbeat, State
from proxy.process.loop_watchdog import Watchdog
from proxy.process.supervisor import stop_with_parent
from proxy.serving.quota import Quota
from proxy.serving.rate import rate_at
from proxy.serving.relay import Relay
from proxy.serving.revocation import abort_revoked
from proxy.telemetry import metrics
from proxy.telemetry.log_writer import dropped_lines
from proxy.upstreams.client import UpstreamClient

_STOP_SECONDS = 4.0
"""For all parts together; each has a shorter timeout of its own."""
_INITIAL_LIMITS = RequestLimits()
_MEASURE_SECONDS = 1.0

logger = logging.getLogger("athena.runtime")


class Runtime:
    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        configuration.on_change = lambda snapshot: abort_revoked(self.relays, snapshot)
        self.client: UpstreamClient
        self.audit = AuditRecorder(
            Journal(Path(settings.DATA_DIR) / "journal", max_bytes=settings.SPOOL_BYTES),
            after_write=configuration.write_key_uses,
        )
        self.retention = Retention()
        self.quota = Quota(settings.WORKERS)
        self.counting_quota = Quota(settings.WORKERS)
        """Slots of requests that count tokens: open streams must not block them."""
        self.heartbeat = Heartbeat(self.state)
        self.watchdog = Watchdog()
        self.relays: set[Relay] = set()
        self.uploads: set[asyncio.Timeout] = set()
        self.drain = Drain(
            seconds=lambda: self.configuration.drain_time,
            refuse=self._abort_uploads,
            abort=self._abort_all,
            flush=self.audit.flush,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.client = UpstreamClient(transport=settings.UPSTREAM_TRANSPORT)
        self.quota.rate = rate_at(settings.REDIS_URL)
        self.audit.open_journal()
        await self.configuration.start()
        self._tasks = [
            asyncio.create_task(self.configuration.watch()),
            asyncio.create_task(self.audit.run()),
            asyncio.create_task(self.retention.run()),
            asyncio.create_task(self._measure()),
            asyncio.create_task(self.heartbeat.run()),
            asyncio.create_task(self.watchdog.run()),
            asyncio.create_task(stop_with_parent()),
        ]
        self.drain.install_signal_handlers()

    async def stop(self) -> None:
        self.retention.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop_parts(
            self.audit.stop(),
            self.heartbeat.stop(),
            self.client.aclose(),
            self.quota.rate.close(),
        )

    async def _stop_parts(self, *parts: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.create_task(part) for part in parts]
        _, late = await asyncio.wait(tasks, timeout=_STOP_SECONDS)
        for task in late:
            task.cancel()
        if late:
            logger.warning("stopped before everything was written; the next start recovers it")

    def state(self) -> State:
        """Return this process's numbers for its heartbeat."""
        return State(
            configuration_version=self.configuration.version or None,
            open_streams=len(self.relays),
            audit_waiting=self.audit.pending,
            audit_dropped=self.audit.dropped,
            suspected={address_of(o): end for o, end in self.client.suspected().items()},
        )

    def degraded(self) -> list[str]:
        """List the problems that do not stop requests from being served."""
        problems = {
            "database unreachable": not self.configuration.is_fresh,
            "audit waiting for the database": self.audit.is_behind,
            "journal not writable": not self.audit.is_disk_writable,
            "journal full": self.audit.journal.is_full,
        }
        return [problem for problem, is_present in problems.items() if is_present]

    def request_limits(self) -> RequestLimits:
        """Return the configured limits, or the defaults until a configuration is loaded."""
        try:
            return self.configuration.current.request_limits
        except GatewayError:
            return _INITIAL_LIMITS

    def check_accepting(self) -> None:
        """Raise GatewayError while the gateway stops and takes no new requests."""
        if self.drain.is_draining:
            raise _restarting()

    def end(self, exchange: Exchange, status: int) -> None:
        """Release the slots of an exchange, and hand it to the metrics and the audit."""
        self.quota.release(exchange)
        self.counting_quota.release(exchange)
        try:
            exchange_metrics.count_exchange(exchange, status)
        except Exception:
            logger.exception("an exchange could not be counted in the metrics")
        self.audit.record_end(exchange, status)

    async def _measure(self) -> None:
        dropped = 0
        while True:
            already_counted, dropped = dropped, dropped_lines()
            metrics.LOG_DROPPED.inc(dropped - already_counted)
            state = self.state()
            metrics.set_gauges(
                open_streams=state.open_streams,
                slots=self.quota.used_slots,
                buffered_bytes=(relay.held_bytes for relay in self.relays),
                audit_waiting=state.audit_waiting,
                journal_bytes=self.audit.journal.size,
                configuration_version=state.configuration_version or 0,
            )
            await asyncio.sleep(_MEASURE_SECONDS)

    def _abort_all(self) -> None:
        for relay in list(self.relays):
            relay.abort_with(_restarting())
        self._abort_uploads()

    def _abort_uploads(self) -> None:
        for timeout in self.uploads:
            timeout.reschedule(asyncio.get_running_loop().time())


def _restarting() -> GatewayError:
    return GatewayError(ErrorCode.DRAINING, "the gateway is restarting: try again")


runtime = Runtime(configuration)
