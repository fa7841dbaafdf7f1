"""Relays an answer: the upstream's bytes through the pipeline to the client.

`open` waits until an upstream has started to answer: only then is the HTTP status decided, so that
an error keeps its status and a retry is possible. From then on every read from the upstream is one
write to the client, and pings are sent while the upstream is silent.

A read is written in one of two ways: directly in the callback of the upstream's connection or, when
the client is slow, by the request's task. Both call `_advance`.
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
from proxy.http.direct_writer import DirectWriter
from proxy.serving.attempt import StartedAnswer
from proxy.serving.deadlines import Alarm, Deadlines
from proxy.serving.retry import start_answer
from proxy.upstreams.client import (
    NOTHING_FORWARDED,
    Forwarded,
    UpstreamClient,
    redact_failures,
    transport_failure,
)

_READ_ON_SECONDS = 5
"""Limit on reading an answer for the audit after the client has got the error of a call."""

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
        """The relay is in `registry` from `open` until `close`."""
        self._client = client
        self._snapshot = snapshot
        self._exchange = exchange
        self._registry = registry
        self._options = options
        self._opening: asyncio.Task[None]
        self._answer: StartedAnswer | None = None
        self._abort_error: GatewayError | None = None
        self._deadlines: Deadlines
        self._time: Callable[[], float]  # the loop's clock: looking up the loop is a system call
        self._event_count = 0  # of the pipeline, at the last read
        self._writer: DirectWriter | None = None

    async def open(
        self,
        conversation: Conversation,
        forwarded: Forwarded = NOTHING_FORWARDED,
        *,
        within: float | None = None,
    ) -> None:
        """Wait until an upstream has started to answer; raises GatewayError if none does.

        Returns after `within` seconds in any case: `stream` then waits for the rest.
        """
        self._registry.add(self)
        self._opening = asyncio.create_task(self._open(conversation, forwarded))
        try:
            await self._wait_for_opening(within)
            if self._opening.done():
                self._opened()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the upstream's connection, at any stage of the answer. May be called twice."""
        self._registry.discard(self)
        self._opening.cancel()
        if self._answer is not None:
            self._answer.body.abort()
            self._answer = None

    def abort_with(self, error: GatewayError) -> None:
        """End the answer with an error, e.g. because its key was revoked."""
        self._abort_error = error
        if self._answer is None:
            self._opening.cancel()
        else:
            self._answer.body.interrupt_read()

    @property
    def held_bytes(self) -> int:
        return self._exchange.transfer.held_bytes

    @property
    def key(self) -> Key | None:
        return self._exchange.request.key

    @property
    def headers(self) -> dict[str, str]:
        """The upstream's headers for the client; empty until the answer has started."""
        return self._answer.headers if self._answer is not None else {}

    async def stream(self, writer: DirectWriter | None = None) -> AsyncGenerator[bytes, None]:
        """Yield one part for every read that `writer` does not write, and pings during silence."""
        dialect = DIALECTS[self._exchange.dialect]
        while not self._opening.done():
            yield dialect.ping
            await self._wait_for_opening(self._snapshot.ping_after)
        try:
            answer = self._opened()
        except (GatewayError, FormatsError) as error:
            failed = error if isinstance(error, GatewayError) else GatewayError.of(error)
            self._exchange.error = failed
            failure = MessageFailed(failed.kind, str(failed), is_final=not failed.should_retry)
            data = dialect.encoder(self._options).feed([failure])
            self._exchange.add_sent(data)
            yield data
            return
        self._writer = writer
        async with aclosing(self._reads(answer)) as reads:
            async for events in reads:
                data, now = answer.pipeline.encode(events), self._time()
                if answer.pipeline.early_failure is not None:
                    self._on_early_failure(answer.pipeline.early_failure)
                elif not data and now >= self._deadlines.ping_at and not answer.pipeline.done:
                    data = dialect.ping
                if data:
                    self._exchange.add_sent(data)
                    self._deadlines.sent_at = now
                    yield data

    async def collect(self) -> bytes:
        """Return the whole answer as a document; raises GatewayError if it fails."""
        answer, collector = self._opened(), Collector()
        max_bytes = answer.route.limits.answer_bytes
        async for events in self._reads(answer):
            collector.feed(events)
            if collector.size > max_bytes:
                self.abort_with(GatewayError.of(LimitExceeded("answer_bytes", max_bytes)))
        if failure := collector.reply.failure:
            raise self._abort_error or self._exchange.error or self._exchange.error_of(failure)
        if answer.document is not None:
            return answer.document
        return DIALECTS[self._exchange.dialect].encode_reply(collector.reply, self._options)

    def _opened(self) -> StartedAnswer:
        """Return the answer that the opening has started; raises its error."""
        if self._opening.cancelled() and self._abort_error is not None:
            raise self._abort_error
        self._opening.result()
        assert self._answer is not None  # noqa: S101
        return self._answer

    async def _wait_for_opening(self, seconds: float | None) -> None:
        """Wait for the opening, at most `seconds`. It continues if this wait is cancelled."""
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

    async def _open(self, conversation: Conversation, forwarded: Forwarded) -> None:
        # Stored here, because the caller that would take the task's result may be gone.
        self._answer = await start_answer(
            self._client,
            self._snapshot,
            conversation,
            self._exchange,
            options=self._options,
            forwarded=forwarded,
        )

    async def _reads(self, answer: StartedAnswer) -> AsyncGenerator[list[Event], None]:
        """Yield the events of every read; an empty list if a read was interrupted for a ping."""
        self._time = asyncio.get_running_loop().time
        now = self._time()
        self._deadlines = Deadlines(
            answer.route.upstream,
            ping_after=self._snapshot.ping_after,
            now=now,
            requested_at=now - (self._exchange.answer.seconds_to_start or 0),
        )
        alarm = Alarm(self._deadlines, answer.body.interrupt_read)
        try:
            yield self._record(answer, answer.events)
            while not answer.pipeline.done:
                yield await self._next(answer)
            if self._exchange.error is None:  # after an error the upstream may send forever
                answer.body.finish()
                self._answer = None
        finally:
            self._exchange.update_usage(answer.pipeline.usage)
            alarm.cancel()
            self.close()

    async def _next(self, answer: StartedAnswer) -> list[Event]:
        """Wait for the next read; return its events, or those of a failure.

        The list is empty if the read was interrupted, or ended after direct writes.
        """
        pipeline, upstream = answer.pipeline, answer.route.upstream
        try:
            # An abort between two reads had no read to interrupt.
            data = None if self._abort_error else await answer.body.read(self._write_directly)
            if data:
                return self._advance(answer, data)
            if data is not None:
                return self._record(answer, pipeline.decode_end())
        except httpx.TransportError as error:
            return self._fail(answer, transport_failure(error, upstream))
        except Exception:
            logger.exception("unexpected error while an answer was relayed")
            failure = EventOrderError("the gateway could not translate the answer")
            return self._record(answer, pipeline.fail(failure))
        if pipeline.done:  # the end was written directly
            return []
        reason = self._abort_error or self._deadlines.failure(self._time())
        return self._fail(answer, reason) if reason else []

    def _write_directly(self, data: bytes) -> bool:
        """Relay a read in the callback of the upstream's connection.

        Returns False to leave it to the request's task: when a write would have to wait for the
        client, or the answer was aborted.
        """
        answer, writer = self._answer, self._writer
        if answer is None or writer is None or not writer.is_open or self._abort_error:
            return False
        part = answer.pipeline.encode(self._advance(answer, data))
        if answer.pipeline.early_failure is not None:
            self._on_early_failure(answer.pipeline.early_failure)
        if part:
            self._exchange.add_sent(part)
            self._deadlines.sent_at = self._deadlines.received_at
            writer.write(part)
        if answer.pipeline.done:
            answer.body.interrupt_read()
        return True

    def _advance(self, answer: StartedAnswer, data: bytes) -> list[Event]:
        """Decode one read, record it and move the deadlines; fail the answer if one has passed."""
        exchange, pipeline, deadlines = self._exchange, answer.pipeline, self._deadlines
        now, started = self._time(), perf_counter()
        events: list[Event] = []
        try:
            events = pipeline.decode(data)
            if pipeline.done:  # only the last event can be a failure
                events = redact_failures(events, answer.route.upstream)
        finally:  # the transcript has the bytes even if a defect keeps them from being decoded
            exchange.add_read(data, events, started)
        exchange.transfer.own_time += perf_counter() - started
        deadlines.received_at = now
        if (count := pipeline.event_count) != self._event_count:
            self._event_count = count
            deadlines.advanced_at = now
        if now >= deadlines.no_failure_before and not pipeline.done:
            if (late := deadlines.failure(now)) is not None:
                return [*events, *self._fail(answer, late)]
        return events

    def _on_early_failure(self, failure: MessageFailed) -> None:
        """Read on for the audit, for a short time: the client has got its error."""
        if not self._exchange.is_answered:
            self._exchange.is_answered = True
            self._exchange.error = self._exchange.error_of(failure)
            self._deadlines.end_by(self._time() + _READ_ON_SECONDS)

    def _fail(self, answer: StartedAnswer, error: GatewayError) -> list[Event]:
        """End the message with an error that is not part of it, such as a timeout."""
        if not self._exchange.is_answered:
            self._exchange.error = error
        failure = UpstreamError(str(error), kind=error.kind)
        events = answer.pipeline.fail(failure, is_final=not error.should_retry)
        return self._record(answer, events)

    def _record(self, answer: StartedAnswer, events: list[Event]) -> list[Event]:
        """Record events that come without a read; redact the message of a failure first."""
        if answer.pipeline.done:  # only the last event can be a failure
            events = redact_failures(events, answer.route.upstream)
        self._exchange.add_read(b"", events, perf_counter())
        return events
