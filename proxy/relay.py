"""An upstream's bytes → the pipeline → the client's bytes.

`open` waits until an upstream has really begun to answer: only then is the HTTP status decided, so
that an error keeps its status and another attempt is possible. From then on every read of the
upstream is one write to the client, and silence is filled with pings.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter

import httpx

from formats import (
    DIALECTS,
    Collector,
    Conversation,
    Event,
    EventOrderError,
    FailureKind,
    FormatsError,
    MessageFailed,
    ReplyOptions,
    UpstreamError,
)
from proxy.attempt import Begun
from proxy.errors import ErrorCode, GatewayError, UpstreamFailed
from proxy.exchange import Exchange
from proxy.retry import begin
from proxy.snapshot import Snapshot, Upstream
from proxy.upstream import (
    NOTHING_CARRIED,
    Carried,
    UpstreamClient,
    failure_of,
    redacted_event,
)

_RECHECK = 0.25
_PATIENCE = 0.5
"""Seconds for what an upstream sends behind the end of its message: `[DONE]`, a comment."""
_MOST_BEHIND = 64 * 1024

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
        self._idle_at = self._progress_at = self._ping_at = 0.0
        self._timer: asyncio.TimerHandle

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
            await asyncio.wait((self._opening,), timeout=within)
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
        return self._exchange.held_bytes

    @property
    def headers(self) -> dict[str, str]:
        """Of the upstream's, those that the client may see; none before it has begun."""
        return self._begun.headers if self._begun is not None else {}

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The client's bytes: one part for every read of the upstream, and pings in silence."""
        dialect = DIALECTS[self._exchange.dialect]
        while not self._opening.done():
            yield dialect.ping
            await asyncio.wait((self._opening,), timeout=self._snapshot.ping_after)
        try:
            begun = self._take_begun()
        except (GatewayError, FormatsError) as error:
            failed = error if isinstance(error, GatewayError) else GatewayError.of(error)
            self._exchange.error = failed
            failure = MessageFailed(failed.kind, str(failed))
            data = dialect.encoder(self._options).feed([failure])
            self._exchange.sent(data)
            yield data
            return
        loop = asyncio.get_running_loop()
        async with aclosing(self._reads(begun)) as reads:
            async for events in reads:
                data = b"" if events is None else begun.pipeline.encode(events)
                if not data and loop.time() >= self._ping_at and not begun.pipeline.done:
                    data = dialect.ping
                if data:
                    self._exchange.sent(data)
                    self._ping_at = loop.time() + self._snapshot.ping_after
                    yield data

    async def collect(self) -> bytes:
        """The whole answer; raises GatewayError when it failed on the way."""
        begun, collector = self._take_begun(), Collector()
        async for events in self._reads(begun):
            collector.feed(events or ())
        if failure := collector.reply.failure:
            raise self._cut or self._exchange.error or self._exchange.failed(failure)
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

    async def _reads(self, begun: Begun) -> AsyncGenerator[list[Event] | None, None]:
        """The events of every read, observed; None where it was interrupted, for a ping."""
        loop = asyncio.get_running_loop()
        self._idle_at = loop.time() + begun.route.upstream.idle_timeout
        self._progress_at = loop.time() + begun.route.upstream.first_byte_timeout
        self._ping_at = loop.time() + self._snapshot.ping_after
        self._arm(min(self._idle_at, self._ping_at))
        events: list[Event] | None = begun.events
        try:
            while True:
                if events and begun.pipeline.done:
                    events = [redacted_event(event, begun.route.upstream) for event in events]
                if events:
                    self._exchange.understood(events)
                yield events
                if begun.pipeline.done:
                    break
                events = await self._next(begun)
            if begun.pipeline.is_verbatim and begun.document is None:
                async with aclosing(self._behind_the_end(begun)) as reads:
                    async for events in reads:
                        yield events
            begun.answer.finish()
            self._begun = None
        finally:
            self._timer.cancel()
            self.close()

    async def _behind_the_end(self, begun: Begun) -> AsyncGenerator[list[Event], None]:
        """What follows the end of a message whose bytes go on as they are, if it comes at once."""
        deadline, size = asyncio.get_running_loop().time() + _PATIENCE, 0
        while size < _MOST_BEHIND:
            try:
                async with asyncio.timeout_at(deadline):
                    data = await begun.answer.read()
            except (TimeoutError, httpx.TransportError):
                break  # all that matters was said
            if not data:
                if data is None:
                    continue
                break
            self._exchange.received(data)
            size += len(data)
            yield begun.pipeline.decode(data)
        yield begun.pipeline.decode_end()

    async def _next(self, begun: Begun) -> list[Event] | None:
        """The events of the next read, or of what happened instead of one; None if nothing did."""
        pipeline, upstream = begun.pipeline, begun.route.upstream
        try:
            # A cut that came while nothing was being read has interrupted nothing.
            data = None if self._cut else await begun.answer.read()
            now = asyncio.get_running_loop().time()
            if data:
                self._exchange.received(data)
                self._idle_at = now + upstream.idle_timeout
                if b"data" in data:
                    self._progress_at = now + upstream.first_byte_timeout
                elif now >= self._progress_at:
                    return self._fail(begun, _stalled(upstream))
                began = perf_counter()
                events = pipeline.decode(data)
                self._exchange.own_time += perf_counter() - began
                return events
            if data is not None:
                return pipeline.decode_end()
        except httpx.TransportError as error:
            return self._fail(begun, failure_of(error, upstream))
        except Exception:
            logger.exception("a defect of the gateway's own")
            return pipeline.fail(EventOrderError("the gateway could not translate the answer"))
        if self._cut is not None:
            return self._fail(begun, self._cut)
        if now >= self._idle_at:
            message = f"the upstream {upstream.name} was silent for {upstream.idle_timeout:g} s"
            silent = UpstreamFailed(message, kind=FailureKind.TIMEOUT, code=ErrorCode.UPSTREAM_IDLE)
            return self._fail(begun, silent)
        return None

    def _fail(self, begun: Begun, error: GatewayError) -> list[Event]:
        """End the message for a reason outside it."""
        self._exchange.error = error
        return begun.pipeline.fail(UpstreamError(str(error), kind=error.kind))

    def _arm(self, moment: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(moment, self._tick)

    def _tick(self) -> None:
        """Interrupt a read that has waited long enough. One timer serves all reads of a stream."""
        now, due = asyncio.get_running_loop().time(), min(self._idle_at, self._ping_at)
        if now >= due and self._begun is not None:
            self._begun.answer.interrupt()
        self._arm(max(due, now + _RECHECK))


def _stalled(upstream: Upstream) -> UpstreamFailed:
    """For an upstream that keeps the connection alive with comments, and sends nothing else."""
    seconds = upstream.first_byte_timeout
    message = f"the upstream {upstream.name} sent only comments for {seconds:g} s"
    return UpstreamFailed(message, kind=FailureKind.TIMEOUT, code=ErrorCode.UPSTREAM_IDLE)
