"""One response: upstream bytes → events → client bytes.

    decoder ─▶ native transform ─▶ delivery ─▶ encoder

If client and upstream speak one dialect, the upstream's bytes are forwarded instead of encoded ones
for as long as they agree with the delivered events.

On the client's stream, nothing but the error follows a failed call. What the upstream sends after
it is still decoded, for the audit and for replays.

This is the only place that turns exceptions into MessageFailed. Events decoded before the failure
are delivered first.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec.structs import replace

from formats.delivery import Delivery
from formats.errors import FormatsError, UpstreamError
from formats.events import (
    CallFault,
    Event,
    MessageEnd,
    MessageFailed,
    Notice,
    ReasoningDelta,
    State,
    TextDelta,
    ToolCallFailed,
    Usage,
)
from formats.passthrough import FramedDecoder, Passthrough
from formats.upstream_errors import as_context_overflow

_DONE = State.DONE  # bound once: looking up an Enum member costs as much as a call
_MAY_FOLLOW_CUT_CALL = frozenset({MessageEnd, MessageFailed, Notice})
_TEXT_DELTAS = frozenset({ReasoningDelta, TextDelta})


class Decoder(FramedDecoder, Protocol):
    served_by: str | None
    """The provider that answered, if the upstream is a router and names it."""
    usage: Usage
    """Token counts reported so far."""

    event_count: int
    """Number of events received, not counting keepalives."""

    def feed(self, data: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...
    def read_whole(self, body: bytes) -> list[Event]: ...
    def take(self) -> list[Event]:
        """Return the events that were decoded before an error was raised."""


class Transform(Protocol):
    """A stage between decoder and delivery."""

    def feed(self, events: Iterable[Event]) -> list[Event]: ...
    def take(self) -> list[Event]:
        """Return the events that were made before an error was raised."""

    def try_pass(self, event: Event) -> bool:
        """Record a delta of text or reasoning and return True if it passes unchanged.

        Such a delta must not be fed. Otherwise do nothing and return False.
        """


class Encoder(Protocol):
    def feed(self, events: list[Event]) -> bytes: ...


class Pipeline:
    def __init__(
        self,
        decoder: Decoder,
        native: Transform,
        delivery: Delivery,
        encoder: Encoder,
    ) -> None:
        self._decoder = decoder
        self._native = native
        self._delivery = delivery
        self._encoder = encoder
        self._passthrough = encoder if isinstance(encoder, Passthrough) else None
        self._is_cut = False  # the newest call was truncated: the message may still end legally
        self.done = False
        self.event_count = 0
        """Number of events received from the upstream, not counting keepalives."""
        self.early_failure: MessageFailed | None = None
        """The error that has ended the client's stream, because a call failed, although the answer
        goes on."""

    @property
    def served_by(self) -> str | None:
        return self._decoder.served_by

    @property
    def usage(self) -> Usage:
        """Token counts reported so far, also for an unfinished answer."""
        return self._decoder.usage

    @property
    def is_passthrough(self) -> bool:
        """True if the upstream's bytes are forwarded, so far."""
        return self._passthrough is not None and self._passthrough.is_active

    def feed(self, data: bytes) -> bytes:
        """Return the client's bytes for a part of the upstream's answer."""
        return self.encode(self.decode(data))

    def close(self) -> bytes:
        """Return the client's bytes for the end of the upstream's answer."""
        return self.encode(self.decode_end())

    def _fail_native(self, failure: MessageFailed) -> list[Event]:
        try:
            return self._native.feed([failure])  # releases text that is still undecided
        except FormatsError:  # that text exceeds a limit, too
            return [*self._native.take(), failure]

    def encode(self, events: list[Event]) -> bytes:
        """Return the client's bytes for all events decoded since the last call."""
        if self._delivery.fault is None:
            return self._encoder.feed(events)
        return self._encode_to_failure(events)

    def stop_passthrough(self) -> None:
        """Stop passthrough: the client wants another form. Call before sending anything."""
        if self._passthrough is not None:
            self._passthrough.stop()

    def decode(self, data: bytes) -> list[Event]:
        if self._passthrough is not None:
            data = self._passthrough.whole_events(data)
        return self._events(data, self._decoder.feed) if data else []

    def decode_end(self) -> list[Event]:
        rest = self._passthrough.remaining() if self._passthrough is not None else b""
        return self._events(rest, self._read_end)

    def decode_whole(self, body: bytes) -> list[Event]:
        """Decode an answer that is one JSON document."""
        return self._events(body, self._decoder.read_whole)

    def fail(self, error: FormatsError, *, is_final: bool = False) -> list[Event]:
        """End the message for an external reason: a timeout, a lost connection."""
        return self._deliver([replace(_failed(error), is_final=is_final)])

    def _read_end(self, rest: bytes) -> list[Event]:
        return [*self._decoder.feed(rest), *self._decoder.close()]

    def _events(self, data: bytes, read: Callable[[bytes], list[Event]]) -> list[Event]:
        decoded: list[Event] = []
        events: list[Event] = []
        if not self.done:
            try:
                decoded = events = read(data)
            except FormatsError as error:
                decoded, failure = self._read_before(error)
                events = [*decoded, _failed(failure)]
            self.event_count = self._decoder.event_count
            if self._passthrough is not None:
                self._passthrough.add(data, decoded)
        return self._deliver(events)

    def _read_before(self, error: FormatsError) -> tuple[list[Event], FormatsError]:
        """Return the events decoded before an error, and the first error of the data."""
        try:
            return self._decoder.take(), error
        except FormatsError as earlier:  # in earlier data that was not decoded yet
            return self._decoder.take(), earlier

    def _deliver(self, events: list[Event]) -> list[Event]:
        if len(events) == 1 and type(events[0]) in _TEXT_DELTAS:  # as in most reads
            if self._delivery.is_inside_content and self._native.try_pass(events[0]):
                return events
        try:
            events = self._native.feed(events)
        except FormatsError as error:
            events = self._fail_native(_failed(error))
        out: list[Event] = []
        try:
            self._delivery.feed(events, out)
        except FormatsError as error:
            self._delivery.feed([_failed(error)], out)
        self.done = self._delivery.state is _DONE
        return out

    def _encode_to_failure(self, events: list[Event]) -> bytes:
        """Encode the events up to the first failed call, and the error."""
        if self.early_failure is not None:
            return b""
        shown: list[Event] = []
        for event in events:
            if self._is_cut and type(event) not in _MAY_FOLLOW_CUT_CALL:
                self.early_failure = self._delivery.failure_of_call
            else:
                shown.append(event)
                if type(event) is ToolCallFailed and event.fault is not CallFault.SUPERSEDED:
                    self._is_cut = event.fault is CallFault.TRUNCATED
                    if not self._is_cut:
                        self.early_failure = self._delivery.failure_of_call
            if self.early_failure is not None:
                shown.append(self.early_failure)
                break
        return self._encoder.feed(shown)


def _failed(error: FormatsError) -> MessageFailed:
    if not isinstance(error, UpstreamError):
        return MessageFailed(error.kind, str(error))
    error = as_context_overflow(error)
    return MessageFailed(error.kind, str(error), error.fault)
