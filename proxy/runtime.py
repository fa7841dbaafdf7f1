"""What one server process has: its configuration, its client, its open answers, and its end.

Stopping is the application's own affair: new work is refused at once, open streams may go on for
the drain time, and whoever is left then gets an error, before the server would cut them off
without a word. A second signal ends the drain time; what comes after that is the server's.
"""

import asyncio
import contextlib
import logging
import signal
from time import monotonic
from types import FrameType

from django.conf import settings

from formats import FailureKind
from proxy import metrics
from proxy.audit import Audit
from proxy.configuration import Configuration, configuration
from proxy.errors import ErrorCode, GatewayError
from proxy.exchange import Exchange
from proxy.heartbeat import Heartbeat, State
from proxy.quota import Quota
from proxy.relay import Relay
from proxy.retention import Retention
from proxy.upstream import UpstreamClient

# Before there is a configuration, only probes are answered.
_DEFAULT_BODY_BYTES = 1024 * 1024
# Ctrl-C reaches a worker twice, from the terminal and from its parent: that is one signal.
_SAME_SIGNAL = 1.0
_MEASURED_EVERY = 1.0

logger = logging.getLogger("athena.runtime")


class Runtime:
    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.client: UpstreamClient
        self.audit = Audit()
        self.retention = Retention()
        self.quota = Quota()
        self.heartbeat = Heartbeat(self.state)
        self.relays: set[Relay] = set()
        self.uploads: set[asyncio.Timeout] = set()
        self.is_draining = False
        self._tasks: list[asyncio.Task[None]] = []
        self._deadline: asyncio.TimerHandle | None = None
        self._signalled_at: float | None = None
        self._is_cut = False

    async def start(self) -> None:
        self.is_draining = self._is_cut = False
        self._signalled_at = None
        self.client = UpstreamClient(transport=settings.UPSTREAM_TRANSPORT)
        await self.configuration.refresh()
        self._tasks = [
            asyncio.create_task(self.configuration.watch()),
            asyncio.create_task(self.audit.run()),
            asyncio.create_task(self.retention.run()),
            asyncio.create_task(self._measure()),
            asyncio.create_task(self.heartbeat.run()),
        ]
        self._chain_signals()

    async def stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self.retention.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.configuration.refresh()  # writes which keys were used
        await self.audit.flush()
        await self.heartbeat.stop()
        await self.client.aclose()

    def state(self) -> State:
        """What this process is at."""
        return State(
            configuration_version=self.configuration.version or None,
            open_streams=len(self.relays),
            audit_waiting=self.audit.waiting,
            audit_dropped=self.audit.dropped,
        )

    def max_body_bytes(self) -> int:
        try:
            return self.configuration.current.max_body_bytes
        except GatewayError:
            return _DEFAULT_BODY_BYTES

    def admit(self) -> None:
        """Raise GatewayError when no new work is taken."""
        if self.is_draining:
            raise _restarting()

    def end(self, exchange: Exchange, status: int) -> None:
        """Take leave of an exchange, however it ended."""
        self.quota.release(exchange)
        try:
            metrics.observe(exchange, status)
        except Exception:
            logger.exception("an exchange is not in the metrics")
        self.audit.submit(exchange, status)

    async def _measure(self) -> None:
        while True:
            state = self.state()
            metrics.measure(
                open_streams=state.open_streams,
                held=(relay.held_bytes for relay in self.relays),
                waiting=state.audit_waiting,
                version=state.configuration_version or 0,
            )
            await asyncio.sleep(_MEASURED_EVERY)

    def _chain_signals(self) -> None:
        """Hear of the end with the server, which tells the application after the last stream."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            previous = signal.getsignal(number)

            def handle(received: int, frame: FrameType | None, previous: object = previous) -> None:
                if self._signalled_at is None:
                    self._signalled_at = monotonic()
                    loop.call_soon_threadsafe(self._drain)
                elif monotonic() - self._signalled_at < _SAME_SIGNAL:
                    return
                elif not self._is_cut:
                    loop.call_soon_threadsafe(self._cut_all)
                    return
                if callable(previous):
                    previous(received, frame)

            with contextlib.suppress(ValueError):  # not the main thread: a test runs the server
                signal.signal(number, handle)

    def _drain(self) -> None:
        self.is_draining = True
        seconds = self.configuration.current.drain_time
        if self.relays:
            logger.info("stopping: %d answers may go on for %g s", len(self.relays), seconds)
        self._refuse_uploads()
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(seconds, self._cut_all)

    def _cut_all(self) -> None:
        self._is_cut = True
        for relay in list(self.relays):
            relay.cut(_restarting())
        self._refuse_uploads()

    def _refuse_uploads(self) -> None:
        """A request that is still being sent would be refused at its end."""
        for patience in self.uploads:
            patience.reschedule(asyncio.get_running_loop().time())


def _restarting() -> GatewayError:
    return GatewayError(
        "the gateway is being restarted: try again",
        kind=FailureKind.OVERLOADED,
        status=503,
        code=ErrorCode.DRAINING,
        retry_after=2,
    )


runtime = Runtime(configuration)
