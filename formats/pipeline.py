"""One response: upstream bytes → events → client bytes.

    decoder ─▶ native transform ─▶ delivery ─▶ encoder

This is the only place that turns exceptions into MessageFailed. What was understood before the
failure is delivered first.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from formats.delivery import Delivery
from formats.errors import FormatsError, UpstreamError
from formats.events import Event, MessageFailed, State
from formats.failure import as_overflow


class Decoder(Protocol):
    served_by: str | None
    """Who really answered, where an upstream that routes says so."""

    def feed(self, data: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...
    def read_whole(self, body: bytes) -> list[Event]: ...
    def take(self) -> list[Event]:
        """The events that were read before an error was raised."""


class Transform(Protocol):
    """What stands between decoder and delivery."""

    def feed(self, events: Iterable[Event]) -> list[Event]: ...


class Encoder(Protocol):
    def feed(self, events: Iterable[Event]) -> bytes: ...


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

    @property
    def done(self) -> bool:
        return self._delivery.state is State.DONE

    @property
    def served_by(self) -> str | None:
        return self._decoder.served_by

    def feed(self, data: bytes) -> bytes:
        """The client's bytes for a part of the upstream's answer."""
        return self.encode(self.decode(data))

    def close(self) -> bytes:
        """The client's bytes for the end of the upstream's answer."""
        return self.encode(self.decode_end())

    def encode(self, events: Iterable[Event]) -> bytes:
        return self._encoder.feed(events)

    def decode(self, data: bytes) -> list[Event]:
        return self._events(lambda: self._decoder.feed(data))

    def decode_end(self) -> list[Event]:
        return self._events(self._decoder.close)

    def decode_whole(self, body: bytes) -> list[Event]:
        """The events of an answer that came as one JSON document."""
        return self._events(lambda: self._decoder.read_whole(body))

    def fail(self, error: FormatsError) -> list[Event]:
        """End the message for a reason outside it: a time-out, a lost connection."""
        return self._deliver([_failed(error)])

    def _events(self, read: Callable[[], list[Event]]) -> list[Event]:
        if self.done:
            return []
        try:
            events = read()
        except FormatsError as error:
            events = [*self._decoder.take(), _failed(error)]
        return self._deliver(events)

    def _deliver(self, events: list[Event]) -> list[Event]:
        try:
            events = self._native.feed(events)
        except FormatsError as error:
            events = self._native.feed([_failed(error)])
        out: list[Event] = []
        try:
            self._delivery.feed(events, out)
        except FormatsError as error:
            self._delivery.feed([_failed(error)], out)
        return out


def _failed(error: FormatsError) -> MessageFailed:
    if isinstance(error, UpstreamError):
        error = as_overflow(error)
    return MessageFailed(error.kind, str(error))
