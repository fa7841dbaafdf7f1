"""Passthrough: forwards the upstream's own bytes while client and upstream speak one dialect.

The events decoded from the upstream are compared with the events to be delivered. While they agree,
whole server-sent events are forwarded unchanged. While the pipeline holds something back, the bytes
wait, within a limit. From the first difference on, an encoder writes the answer, as a continuation
of the bytes already sent: same ids, same blocks, same count of calls. It also writes what the
upstream leaves out at the end of a message. Nothing after the end is forwarded.

A read is compared as a whole, because it often has many events. Only if it differs are its events
compared one by one, by a second decoder that sees this read alone; a call that spans reads is then
encoded from the beginning of the read. This changes the bytes, never their meaning.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from formats.errors import DEFAULT_LIMITS, Limits, UpstreamError
from formats.events import (
    Event,
    MessageEnd,
    MessageStart,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallFailed,
)
from formats.sse import EventSplitter, event_spans

_HELD_BYTES = 16 * 1024
"""Limit of undecided upstream bytes. A marker of 30 characters, one per chunk, takes half of it."""

_NOTHING: list[Event] = []


class Frame(Struct, frozen=True):
    """A position in the framing of an answer."""

    index: int = -1
    """Index of the newest block (Anthropic), or of the newest call (OpenAI)."""
    delta_type: type[Event] | None = None
    """The type of the deltas of the open block."""


class FramedDecoder(Protocol):
    """The part of a decoder that passthrough needs."""

    frame: Frame

    def feed(self, data: bytes) -> list[Event]: ...
    @property
    def has_pending(self) -> bool:
        """True if something was read that is not in an event yet."""

    @property
    def is_irregular(self) -> bool:
        """True if strict clients of the dialect would reject the upstream's framing."""

    @property
    def is_terminated(self) -> bool:
        """True if the terminator of a stream was read, or the whole answer was a document."""


class ResumableEncoder(Protocol):
    terminator: bytes
    """The last event of a complete stream, which says nothing but that it is complete."""

    def feed(self, events: Iterable[Event]) -> bytes: ...
    def resume(self, start: MessageStart, frame: Frame) -> None:
        """Continue after bytes that this encoder did not write."""


class Passthrough:
    def __init__(
        self,
        decoder: FramedDecoder,
        probe: Callable[[], FramedDecoder],
        encoder: Callable[[], ResumableEncoder],
        limits: Limits = DEFAULT_LIMITS,
        *,
        trim: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`probe` makes a second decoder, `encoder` an encoder; both only if needed. `trim` removes
        what the client did not ask for."""
        self._decoder = decoder
        self._make_probe = probe
        self._make_encoder = encoder
        self._splitter = EventSplitter(limits)
        self._encoder: ResumableEncoder | None = None
        self.is_active = True
        """True if the upstream's bytes are still forwarded."""
        self._trim = trim
        self._unsent = b""
        self._decoded = _NOTHING  # events of the upstream that are not delivered yet
        self._delivered: list[Event] = []  # delivered events whose bytes are unsent
        self._start: MessageStart | None = None  # once it was sent
        self._frame = Frame()
        self._is_cut = False  # the last event is unfinished: its bytes must not be forwarded
        self._has_failed_call = False  # the end of the message decides what that means

    def whole_events(self, data: bytes) -> bytes:
        """Add bytes of the upstream; return those that make up whole events."""
        if not self._splitter.held and data.endswith(b"\n\n"):
            return data
        return self._splitter.feed(data)

    def remaining(self) -> bytes:
        """Return the bytes of the last, unfinished event."""
        rest = self._splitter.close()
        self._is_cut = bool(rest)
        return rest

    def add(self, raw: bytes, decoded: list[Event]) -> None:
        """Add whole events of the upstream, as bytes and decoded."""
        if self.is_active:
            self._unsent = self._unsent + raw if self._unsent else raw
            self._decoded = self._decoded + decoded if self._decoded else decoded

    def feed(self, events: list[Event]) -> bytes:
        """Return the client's bytes for the delivered events of all bytes added."""
        if not self.is_active:
            return self._encode(events)
        decoder = self._decoder
        remaining = _NOTHING if self._decoded == events else _not_delivered(self._decoded, events)
        if remaining is None or decoder.is_irregular or self._is_cut:
            return self._encode(events)
        self._has_failed_call = self._has_failed_call or any(map(_is_failure, events))
        if events and _is_end(events[-1]):
            if remaining:
                return self._encode(events)
            data = self._send(events)
            return data if decoder.is_terminated else data + self._make_encoder().terminator
        if remaining or self._has_failed_call or decoder.has_pending:
            return self._hold(remaining, events)
        return self._send(events)

    def stop(self) -> None:
        """Stop passthrough. Call before sending anything."""
        self.is_active = False

    def _hold(self, remaining: list[Event], events: list[Event]) -> bytes:
        if len(self._unsent) > _HELD_BYTES:
            return self._encode(events)
        self._decoded = remaining
        self._delivered += events
        return b""

    def _send(self, events: list[Event]) -> bytes:
        if self._start is None:
            self._start = _start_of([*self._delivered, *events])
        data = self._unsent
        self._unsent, self._decoded, self._frame = b"", _NOTHING, self._decoder.frame
        if self._delivered:
            self._delivered = []
        return self._trim(data) if self._trim else data

    def _probe(self) -> FramedDecoder:
        """Return a decoder positioned at the end of the bytes sent."""
        probe = self._make_probe()
        if self._start is not None:
            probe.feed(self._make_encoder().feed([self._start]))
        probe.frame = self._frame
        return probe

    def _encode(self, events: list[Event]) -> bytes:
        """Stop passthrough, and encode everything that the unsent bytes do not match."""
        if self._encoder is not None:
            return self._encoder.feed(events)
        self._encoder = self._make_encoder()
        data, events = (
            self._matching_prefix([*self._delivered, *events]) if self.is_active else (b"", events)
        )
        if self._start is not None:
            self._encoder.resume(self._start, self._frame)
        self.is_active, self._delivered, self._unsent, self._decoded = False, [], b"", _NOTHING
        return data + self._encoder.feed(events)

    def _matching_prefix(self, delivered: list[Event]) -> tuple[bytes, list[Event]]:
        """Return the unsent bytes that match, and the delivered events that they do not cover."""
        if self._frame.delta_type is ToolCallDelta:
            return b"", delivered
        probe, end, all_delivered, remaining = self._probe(), 0, delivered, delivered
        for start, stop in event_spans(self._unsent):
            try:
                decoded = probe.feed(self._unsent[start:stop])
            except UpstreamError:
                break
            has_failure = any(map(_is_failure, decoded))
            uncovered = None if has_failure else _not_delivered(remaining, decoded)
            if uncovered is None or probe.is_irregular or any(map(_is_end, decoded)):
                break  # leave the end of the message to the encoder, which always completes it
            remaining = uncovered
            if not probe.has_pending:
                delivered, end, self._frame = remaining, stop, probe.frame
                self._start = self._start or _start_of(all_delivered)
        data = self._unsent[:end]
        return self._trim(data) if self._trim else data, delivered


def _not_delivered(decoded: list[Event], events: list[Event]) -> list[Event] | None:
    """Return the part of `decoded` that `events` do not cover yet; None if they differ."""
    remaining = [event for event in decoded if type(event) is not Notice]
    at, seen = 0, 0  # the position in `remaining`, and in the text of the event there
    for event in events:
        if type(event) is Notice:
            continue
        text = _text(event)
        if text is None:
            if seen or at == len(remaining) or not _is_equivalent(remaining[at], event):
                return None
            at += 1
            continue
        while text:
            same_type = at < len(remaining) and type(remaining[at]) is type(event)
            expected = _text(remaining[at]) if same_type else None
            if expected is None:
                return None
            piece = expected[seen : seen + len(text)]
            if not text.startswith(piece):
                return None
            text, seen = text[len(piece) :], seen + len(piece)
            if seen == len(expected):
                at, seen = at + 1, 0
    if not seen:
        return remaining[at:]
    return [_cut(remaining[at], seen), *remaining[at + 1 :]]


def _start_of(events: list[Event]) -> MessageStart | None:
    return next((event for event in events if isinstance(event, MessageStart)), None)


def _is_failure(event: Event) -> bool:
    return type(event) is ToolCallFailed


def _is_end(event: Event) -> bool:
    return type(event) is MessageEnd


def _is_equivalent(decoded: Event, delivered: Event) -> bool:
    """Compare two events; an id or model that the upstream left out does not count."""
    return decoded == delivered or (
        isinstance(decoded, MessageStart) and isinstance(delivered, MessageStart)
    )


def _text(event: Event) -> str | None:
    match event:
        case TextDelta(text=text) | ReasoningDelta(text=text):
            return text
        case ToolCallDelta(json=json):
            return json
    return None


def _cut(event: Event, seen: int) -> Event:
    match event:
        case ToolCallDelta(json=json):
            return ToolCallDelta(json[seen:])
        case ReasoningDelta(text=text):
            return ReasoningDelta(text[seen:])
        case TextDelta(text=text):
            return TextDelta(text[seen:])
    return event
