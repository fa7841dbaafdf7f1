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
from formats.events import Event, MessageFailed, State
from formats.failure import as_overflow
from formats.verbatim import Framed, Verbatim


class Decoder(Framed, Protocol):
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
        self._verbatim = encoder if isinstance(encoder, Verbatim) else None

    @property
    def done(self) -> bool:
        return self._delivery.state is State.DONE

    @property
    def served_by(self) -> str | None:
        return self._decoder.served_by

    @property
    def is_verbatim(self) -> bool:
        """Whether the upstream's own bytes go on, up to now."""
        return self._verbatim is not None and self._verbatim.is_kept

    def feed(self, data: bytes) -> bytes:
        """The client's bytes for a part of the upstream's answer."""
        return self.encode(self.decode(data))

    def close(self) -> bytes:
        """The client's bytes for the end of the upstream's answer."""
        return self.encode(self.decode_end())

    def encode(self, events: list[Event]) -> bytes:
        """The client's bytes for the events of all that was decoded since the last time."""
        return self._encoder.feed(events)

    def write_anew(self) -> None:
        """Let none of the upstream's own bytes go on: the client wants another form."""
        if self._verbatim is not None:
            self._verbatim.write_anew()

    def decode(self, data: bytes) -> list[Event]:
        if self._verbatim is not None:
            data = self._verbatim.whole_events(data)
        return self._events(data, lambda: self._decoder.feed(data)) if data else []

    def decode_end(self) -> list[Event]:
        rest = self._verbatim.rest() if self._verbatim is not None else b""
        return self._events(rest, lambda: [*self._decoder.feed(rest), *self._decoder.close()])

    def decode_whole(self, body: bytes) -> list[Event]:
        """The events of an answer that came as one JSON document."""
        return self._events(body, lambda: self._decoder.read_whole(body))

    def fail(self, error: FormatsError) -> list[Event]:
        """End the message for a reason outside it: a time-out, a lost connection."""
        return self._deliver([_failed(error)])

    def _events(self, data: bytes, read: Callable[[], list[Event]]) -> list[Event]:
        said: list[Event] = []
        events: list[Event] = []
        if not self.done:
            try:
                said = events = read()
            except FormatsError as error:
                said = self._decoder.take()
                events = [*said, _failed(error)]
                if isinstance(error, UpstreamError) and error.is_reported:
                    said = events
        if self._verbatim is not None:
            self._verbatim.read(data, said)
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
