"""An upstream's bytes → the pipeline → the client's bytes.

`open` waits until an upstream has really begun to answer: only then is the HTTP status decided, so
that an error keeps its status and another attempt is possible. From then on every read of the
upstream is one write to the client, and silence is filled with pings.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from time import perf_counter

import httpx

from formats import (
    DIALECTS,
    Collector,
    Conversation,
    Event,
    EventOrderError,
    FormatsError,
    LimitExceeded,
    MessageFailed,
    ReplyOptions,
    UpstreamError,
)
from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import Key, Snapshot
from proxy.errors import GatewayError
from proxy.http.direct_writer import Shortcut
from proxy.serving.attempt import Begun
from proxy.serving.deadlines import Alarm, Deadlines
from proxy.serving.retry import begin
from proxy.upstreams.client import (
    NOTHING_CARRIED,
    Carried,
    UpstreamClient,
    failure_of,
    redacted_events,
)

_TRAILER_SECONDS = 0.5
_TRAILER_BYTES = 64 * 1024
"""Limits on what is read after the end of a message."""

logger = logging.getLogger("athena.relay")


class Relay:
    def __init__(
        self,
        client: UpstreamClient,
        snapshot: Snapshot,
        exchange: Exchange,
        registry: "set[Relay]",
        *,
        options: ReplyOptions,
    ) -> None:
        """It is in the registry from its opening to its close."""
        self._client = client
        self._snapshot = snapshot
        self._exchange = exchange
        self._registry = registry
        self._options = options
        self._opening: asyncio.Task[None]
        self._begun: Begun | None = None
        self._cut: GatewayError | None = None
        self._deadlines: Deadlines
        self._time: Callable[[], float]  # the loop's: to ask for the loop is a call of the system's
        self._heard = 0  # how many events of the upstream's, up to the last read
        self._shortcut: Shortcut | None = None

    async def open(
        self,
        conversation: Conversation,
        carried: Carried = NOTHING_CARRIED,
        *,
        within: float | None = None,
    ) -> None:
        """Ask until an upstream has begun to answer; raises GatewayError when none does.

        Returns all the same after `within` seconds: the stream then waits for the rest.
        """
        self._registry.add(self)
        self._opening = asyncio.create_task(self._open(conversation, carried))
        try:
            await self._await_opening(within)
            if self._opening.done():
                self._take_begun()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the upstream, however far the answer has come. May be called twice."""
        self._registry.discard(self)
        self._opening.cancel()
        if self._begun is not None:
            self._begun.answer.abort()
            self._begun = None

    @property
    def held_bytes(self) -> int:
        return self._exchange.transfer.held_bytes

    @property
    def key(self) -> Key | None:
        """Whose answer it is."""
        return self._exchange.request.key

    @property
    def headers(self) -> dict[str, str]:
        """Of the upstream's, those that the client may see; none before it has begun."""
        return self._begun.headers if self._begun is not None else {}

    async def stream(self, shortcut: Shortcut | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the client's bytes, except those that the shortcut writes: one part for every read
        of the upstream, and pings while it is silent."""
        dialect = DIALECTS[self._exchange.dialect]
        while not self._opening.done():
            yield dialect.ping
            await self._await_opening(self._snapshot.ping_after)
        try:
            begun = self._take_begun()
        except (GatewayError, FormatsError) as error:
            failed = error if isinstance(error, GatewayError) else GatewayError.of(error)
            self._exchange.error = failed
            data = dialect.encoder(self._options).feed([MessageFailed(failed.kind, str(failed))])
            self._exchange.add_sent(data)
            yield data
            return
        self._shortcut = shortcut
        async with aclosing(self._reads(begun)) as reads:
            async for events in reads:
                data, now = begun.pipeline.encode(events), self._time()
                if not data and now >= self._deadlines.ping_at and not begun.pipeline.done:
                    data = dialect.ping
                if data:
                    self._exchange.add_sent(data)
                    self._deadlines.sent_at = now
                    yield data

    async def collect(self) -> bytes:
        """The whole answer; raises GatewayError when it failed on the way."""
        begun, collector = self._take_begun(), Collector()
        most = begun.route.limits.answer_bytes
        async for events in self._reads(begun):
            collector.feed(events)
            if collector.size > most:
                self.cut(GatewayError.of(LimitExceeded("answer_bytes", most)))
        if failure := collector.reply.failure:
            raise self._cut or self._exchange.error or self._exchange.error_of(failure)
        if begun.document is not None:
            return begun.document
        return DIALECTS[self._exchange.dialect].encode_reply(collector.reply, self._options)

    def cut(self, error: GatewayError) -> None:
        """End the answer now, with an error."""
        self._cut = error
        if self._begun is None:
            self._opening.cancel()
        else:
            self._begun.answer.interrupt()

    def _take_begun(self) -> Begun:
        """What the opening came to; raises its error."""
        if self._opening.cancelled() and self._cut is not None:
            raise self._cut
        self._opening.result()
        assert self._begun is not None  # noqa: S101
        return self._begun

    async def _await_opening(self, seconds: float | None) -> None:
        """Until it has come to something, or for so long: it goes on whatever happens here."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake(*_: object) -> None:
            if not waiter.done():
                waiter.set_result(None)

        timer = None if seconds is None else loop.call_later(seconds, wake)
        self._opening.add_done_callback(wake)
        try:
            await waiter
        finally:
            self._opening.remove_done_callback(wake)
            if timer is not None:
                timer.cancel()

    async def _open(self, conversation: Conversation, carried: Carried) -> None:
        # Kept here and not as the task's result, which nobody may be there to take.
        self._begun = await begin(
            self._client,
            self._snapshot,
            conversation,
            self._exchange,
            options=self._options,
            carried=carried,
        )

    async def _reads(self, begun: Begun) -> AsyncGenerator[list[Event], None]:
        """Yield the events of every read, recorded; none where it was interrupted, for a ping."""
        self._time = asyncio.get_running_loop().time
        now = self._time()
        self._deadlines = Deadlines(
            begun.route.upstream,
            ping_after=self._snapshot.ping_after,
            now=now,
            since=now - (self._exchange.answer.seconds_to_start or 0),
        )
        alarm = Alarm(self._deadlines, begun.answer.interrupt)
        try:
            yield self._record(begun, begun.events)
            while not begun.pipeline.done:
                yield await self._next(begun)
            if begun.pipeline.is_passthrough and begun.document is None:
                async with aclosing(self._trailer(begun)) as reads:
                    async for events in reads:
                        yield events
            if self._exchange.error is None:  # else what follows may have no end
                begun.answer.finish()
                self._begun = None
        finally:
            self._exchange.update_usage(begun.pipeline.usage)
            alarm.cancel()
            self.close()

    async def _next(self, begun: Begun) -> list[Event]:
        """Wait for the next read. Returns its events, or those of the failure that came instead;
        none if the read was interrupted or its bytes were written directly."""
        pipeline, upstream = begun.pipeline, begun.route.upstream
        try:
            # A cut that came while nothing was being read has interrupted nothing.
            data = None if self._cut else await begun.answer.read(self._write_directly)
            if data:
                return self._advance(begun, data)
            if data is not None:
                return self._record(begun, pipeline.decode_end())
        except httpx.TransportError as error:
            return self._fail(begun, failure_of(error, upstream))
        except Exception:
            logger.exception("a defect of the gateway's own")
            defect = EventOrderError("the gateway could not translate the answer")
            return self._record(begun, pipeline.fail(defect))
        if pipeline.done:  # its end was written directly
            return []
        reason = self._cut or self._deadlines.failure(self._time())
        return self._fail(begun, reason) if reason else []

    def _write_directly(self, data: bytes) -> bool:
        """Write what the upstream's connection has just read, without waking the request's task.
        Returns False to leave it to the task: when a write must wait, or the answer was cut."""
        begun, shortcut = self._begun, self._shortcut
        if begun is None or shortcut is None or not shortcut.is_open or self._cut is not None:
            return False
        part = begun.pipeline.encode(self._advance(begun, data))
        if part:
            self._exchange.add_sent(part)
            self._deadlines.sent_at = self._deadlines.received_at
            shortcut.write(part)
        if begun.pipeline.done:
            begun.answer.interrupt()
        return True

    def _advance(self, begun: Begun, data: bytes) -> list[Event]:
        """Decode one read, record it, and move the deadlines; past one, the answer fails."""
        exchange, pipeline, deadlines = self._exchange, begun.pipeline, self._deadlines
        now, started = self._time(), perf_counter()
        exchange.add_received(data)
        events = pipeline.decode(data)
        exchange.transfer.own_time += perf_counter() - started
        deadlines.received_at = now
        if (heard := pipeline.event_count) != self._heard:
            self._heard = heard
            deadlines.advanced_at = now
        events = self._record(begun, events)
        if not pipeline.done and (late := deadlines.failure(now)) is not None:
            return [*events, *self._fail(begun, late)]
        return events

    async def _trailer(self, begun: Begun) -> AsyncGenerator[list[Event], None]:
        """Read what follows the end of a message that is passed through: `[DONE]`, a comment."""
        deadline, size = self._time() + _TRAILER_SECONDS, 0
        while size < _TRAILER_BYTES:
            try:
                async with asyncio.timeout_at(deadline):
                    data = await begun.answer.read()
            except (TimeoutError, httpx.TransportError):
                break  # the message itself is complete
            if data is None:
                continue
            if not data:
                break
            size += len(data)
            yield self._advance(begun, data)
        yield begun.pipeline.decode_end()

    def _fail(self, begun: Begun, error: GatewayError) -> list[Event]:
        """End the message for a reason outside it."""
        self._exchange.error = error
        failure = UpstreamError(str(error), kind=error.kind)
        return self._record(begun, begun.pipeline.fail(failure))

    def _record(self, begun: Begun, events: list[Event]) -> list[Event]:
        """Note what is delivered; the words of a failure are redacted first."""
        if events:
            if begun.pipeline.done:  # only the last event can be a failure
                events = redacted_events(events, begun.route.upstream)
            self._exchange.add_events(events)
        return events
