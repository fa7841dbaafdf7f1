"""One response: upstream bytes → events → client bytes.

    decoder ─▶ native transform ─▶ delivery ─▶ encoder

Where both sides speak one dialect, the upstream's own bytes take the place of the encoder's for as
long as they say what is delivered.

This is the only place that turns exceptions into MessageFailed. What was understood before the
failure is delivered first.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from formats.delivery import Delivery
from formats.errors import FormatsError, UpstreamError
from formats.events import Event, MessageFailed, ReasoningDelta, State, TextDelta, Usage
from formats.passthrough import FramedDecoder, Passthrough
from formats.sse import repeated_end
from formats.upstream_errors import as_context_overflow

_DONE = State.DONE  # bound once: to name a member costs as much as a call
_MORE = frozenset({ReasoningDelta, TextDelta})


class Decoder(FramedDecoder, Protocol):
    served_by: str | None
    """Who really answered, where an upstream that routes says so."""
    usage: Usage
    """What it has counted so far."""

    event_count: int
    """How many events came that were more than a sign of life."""

    def feed(self, data: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...
    def read_whole(self, body: bytes) -> list[Event]: ...
    def take(self) -> list[Event]:
        """The events that were read before an error was raised."""


class Transform(Protocol):
    """What stands between decoder and delivery."""

    def feed(self, events: Iterable[Event]) -> list[Event]: ...
    def try_pass(self, event: Event) -> bool:
        """Whether more of a text or of reasoning goes on as it is, and nothing else; it is noted
        then, and must not be fed."""


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
        self._passthrough = encoder if isinstance(encoder, Passthrough) else None
        self.done = False
        self.event_count = 0
        """How many events of the upstream's were more than a sign of life."""
        self.encode: Callable[[list[Event]], bytes] = encoder.feed
        """The client's bytes for the events of all that was decoded since the last time."""

    @property
    def served_by(self) -> str | None:
        return self._decoder.served_by

    @property
    def usage(self) -> Usage:
        """What the upstream has counted so far, also of an answer that has no end."""
        return self._decoder.usage

    @property
    def is_passthrough(self) -> bool:
        """Whether the upstream's own bytes go on, up to now."""
        return self._passthrough is not None and self._passthrough.is_active

    def feed(self, data: bytes) -> bytes:
        """The client's bytes for a part of the upstream's answer."""
        return self.encode(self.decode(data))

    def close(self) -> bytes:
        """The client's bytes for the end of the upstream's answer."""
        return self.encode(self.decode_end())

    def stop_passthrough(self) -> None:
        """Let none of the upstream's own bytes go on: the client wants another form."""
        if self._passthrough is not None:
            self._passthrough.stop_passthrough()

    def decode(self, data: bytes) -> list[Event]:
        if self._passthrough is not None:
            data = self._passthrough.whole_events(data)
        return self._events(data, self._decoder.feed) if data else []

    def decode_end(self) -> list[Event]:
        rest = self._passthrough.rest() if self._passthrough is not None else b""
        return self._events(rest, self._read_end)

    def decode_whole(self, body: bytes) -> list[Event]:
        """The events of an answer that came as one JSON document."""
        return self._events(body, self._decoder.read_whole)

    def fail(self, error: FormatsError) -> list[Event]:
        """End the message for a reason outside it: a time-out, a lost connection."""
        return self._deliver([_failed(error)])

    def _read_end(self, rest: bytes) -> list[Event]:
        return [*self._decoder.feed(rest), *self._decoder.close()]

    def _events(self, data: bytes, read: Callable[[bytes], list[Event]]) -> list[Event]:
        said: list[Event] = []
        events: list[Event] = []
        if not self.done:
            try:
                said = events = read(data)
            except FormatsError as error:
                said, failure = self._read_before(error)
                events = [*said, _failed(failure)]
                if isinstance(failure, UpstreamError) and failure.is_reported:
                    said = events
            self.event_count = self._decoder.event_count
        elif self._passthrough is not None:  # nobody looks at what is behind the end
            data = repeated_end(data)
        if self._passthrough is not None:
            self._passthrough.read(data, said)
        return self._deliver(events)

    def _read_before(self, error: FormatsError) -> tuple[list[Event], FormatsError]:
        """What was read before an error, and the first error that was in it."""
        try:
            return self._decoder.take(), error
        except FormatsError as earlier:  # in what had come before, and was not looked at yet
            return self._decoder.take(), earlier

    def _deliver(self, events: list[Event]) -> list[Event]:
        if len(events) == 1 and type(events[0]) in _MORE:  # most reads bring no more than that
            if self._delivery.is_inside_content and self._native.try_pass(events[0]):
                return events
        try:
            events = self._native.feed(events)
        except FormatsError as error:
            events = self._native.feed([_failed(error)])
        out: list[Event] = []
        try:
            self._delivery.feed(events, out)
        except FormatsError as error:
            self._delivery.feed([_failed(error)], out)
        self.done = self._delivery.state is _DONE
        return out


def _failed(error: FormatsError) -> MessageFailed:
    if not isinstance(error, UpstreamError):
        return MessageFailed(error.kind, str(error))
    error = as_context_overflow(error)
    return MessageFailed(error.kind, str(error), error.fault)
