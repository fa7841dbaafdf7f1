"""An answer whose client speaks the upstream's dialect: its own bytes go on while nothing differs.

What the upstream said (`before`) is compared with what the client is to be told. As long as they
agree, whole server-sent events go on as they came. Where the pipeline holds something back, they
wait, within a limit. From the first event at which the two differ the answer is written anew, as a
continuation of what was sent: same names, same blocks, same count of calls.

A read is compared as a whole, for it often has many events. Only where it differs are its events
looked at one by one, by a decoder that knows this read alone; so a call's middle may be written
anew from the read's beginning. That decides about bytes, and never what the client understands.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from formats.errors import DEFAULT_LIMITS, Limits, UpstreamError
from formats.events import (
    Event,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallFailed,
)
from formats.sse import EventSplitter, event_spans, repeated_end

_HELD_BYTES = 16 * 1024
"""Of an upstream's own bytes, while it is open whether they go on. A marker of thirty characters,
each in a chunk of its own, takes half of it."""

_NOTHING: list[Event] = []


class Frame(Struct, frozen=True):
    """How far the framing of an answer has come."""

    index: int = -1
    """Of the newest block (Anthropic), or the newest call (OpenAI)."""
    delta_type: type[Event] | None = None
    """What the open block takes."""


class FramedDecoder(Protocol):
    """A decoder, as far as framing goes."""

    frame: Frame

    def feed(self, data: bytes) -> list[Event]: ...
    @property
    def has_pending(self) -> bool:
        """Whether something was read that no event tells of yet."""

    @property
    def is_irregular(self) -> bool:
        """Whether the dialect's strict clients would stumble over the upstream's framing."""


class ResumableEncoder(Protocol):
    def feed(self, events: Iterable[Event]) -> bytes: ...
    def resume(self, start: MessageStart, frame: Frame) -> None:
        """Go on behind what somebody else has written."""


class Passthrough:
    def __init__(
        self,
        decoder: FramedDecoder,
        probe: Callable[[], FramedDecoder],
        encoder: Callable[[], ResumableEncoder],
        limits: Limits = DEFAULT_LIMITS,
        *,
        trim: Callable[[bytes], bytes] | None = None,
        redact: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`probe`, another decoder, and `encoder` are made when they are needed; `trim` leaves out
        what the client did not ask for, and `conceal`, of an error, what it may not see."""
        self._decoder = decoder
        self._make_probe = probe
        self._make_encoder = encoder
        self._cutter = EventSplitter(limits)
        self._encoder: ResumableEncoder | None = None
        self.is_active = True
        """Whether the upstream's own bytes still go on."""
        self._trim = trim
        self._redact = redact
        self._raw = b""  # what has not been sent
        self._before = _NOTHING  # said by the upstream, and not told yet
        self._told: list[Event] = []  # told, but the bytes that say so were not sent
        self._start: MessageStart | None = None  # once it was sent
        self._frame = Frame()
        self._is_done = False
        self._is_doubtful = False  # a call failed: the message's end says what that means

    def whole_events(self, data: bytes) -> bytes:
        """As much of the upstream's bytes as makes up whole events."""
        if not self._cutter.held and data.endswith(b"\n\n"):
            return data
        return self._cutter.feed(data)

    def rest(self) -> bytes:
        """What is left of them."""
        return self._cutter.close()

    def read(self, raw: bytes, before: list[Event]) -> None:
        """Take whole events of the upstream, and what they say."""
        if self.is_active:
            self._raw = self._raw + raw if self._raw else raw
            self._before = self._before + before if self._before else before

    def feed(self, events: list[Event]) -> bytes:
        """The client's bytes for what it is to be told of all that was read."""
        if not self.is_active:
            return self._encode(events)
        decoder = self._decoder
        rest = _NOTHING if self._before == events else _unsaid(self._before, events)
        if rest is None or decoder.is_irregular:
            return self._encode(events)
        for event in events:
            kind = type(event)
            if kind is ToolCallFailed:
                self._is_doubtful = True
            elif kind is MessageEnd or kind is MessageFailed:
                self._is_done = True
        if self._is_done and rest:
            return self._encode(events)
        if not self._is_done and (rest or self._is_doubtful or decoder.has_pending):
            return self._hold(rest, events)
        if events and type(events[-1]) is MessageFailed:
            raw = self._up_to_failure()
            if raw is None:
                return self._encode(events)
            self._raw = raw
        return self._send(events)

    def stop_passthrough(self) -> None:
        """Let nothing of an answer go on as it is, of which nothing has been sent."""
        self.is_active = False

    def _hold(self, rest: list[Event], events: list[Event]) -> bytes:
        if len(self._raw) > _HELD_BYTES:
            return self._encode(events)
        self._before = rest
        self._told += events
        return b""

    def _send(self, events: list[Event]) -> bytes:
        if self._start is None:
            self._start = _start_of([*self._told, *events])
        data = self._raw
        self._raw, self._before, self._frame = b"", _NOTHING, self._decoder.frame
        if self._told:
            self._told = []
        return self._trim(data) if self._trim else data

    def _up_to_failure(self) -> bytes | None:
        """What is not sent, but for what stands behind the event that reports a failure; None if
        none does."""
        probe = self._probe()
        for start, stop in event_spans(self._raw):
            report = self._raw[start:stop]
            try:
                probe.feed(report)
            except UpstreamError as error:
                if not error.is_reported:  # of a call, say, whose beginning was sent before
                    break
                report = self._redact(report) if self._redact else report
                return self._raw[:start] + report + repeated_end(self._raw[stop:])
        return None

    def _probe(self) -> FramedDecoder:
        """A decoder that stands where what was sent has ended."""
        probe = self._make_probe()
        if self._start is not None:
            probe.feed(self._make_encoder().feed([self._start]))
        probe.frame = self._frame
        return probe

    def _encode(self, events: list[Event]) -> bytes:
        if self._encoder is not None:
            return self._encoder.feed(events)
        self._encoder = self._make_encoder()
        data, events = (
            self._same_events([*self._told, *events]) if self.is_active else (b"", events)
        )
        if self._start is not None:
            self._encoder.resume(self._start, self._frame)
        self.is_active, self._told, self._raw, self._before = False, [], b"", _NOTHING
        return data + self._encoder.feed(events)

    def _same_events(self, told: list[Event]) -> tuple[bytes, list[Event]]:
        """The upstream's events that say what is told, and what of that they do not say."""
        if self._frame.delta_type is ToolCallDelta:
            return b"", told
        probe, end, all_told, rest = self._probe(), 0, told, told
        for start, stop in event_spans(self._raw):
            try:
                said = probe.feed(self._raw[start:stop])
            except UpstreamError:
                break
            left = None if any(map(_is_failure, said)) else _unsaid(rest, said)
            if left is None or probe.is_irregular or any(map(_is_end, said)):
                break  # the encoder's end is a whole one, whatever stands behind the upstream's
            rest = left
            if not probe.has_pending:
                told, end, self._frame = rest, stop, probe.frame
                self._start = self._start or _start_of(all_told)
        data = self._raw[:end]
        return self._trim(data) if self._trim else data, told


def _unsaid(before: list[Event], events: list[Event]) -> list[Event] | None:
    """What of `before` the events do not tell yet; None if they tell something else."""
    rest = [event for event in before if type(event) is not Notice]
    at, seen = 0, 0  # how far in `rest`, and in the text of the event there
    for event in events:
        if type(event) is Notice:
            continue
        text = _text(event)
        if text is None:
            if seen or at == len(rest) or not _is_same(rest[at], event):
                return None
            at += 1
            continue
        while text:
            said = _text(rest[at]) if at < len(rest) and type(rest[at]) is type(event) else None
            if said is None:
                return None
            piece = said[seen : seen + len(text)]
            if not text.startswith(piece):
                return None
            text, seen = text[len(piece) :], seen + len(piece)
            if seen == len(said):
                at, seen = at + 1, 0
    if not seen:
        return rest[at:]
    return [_cut(rest[at], seen), *rest[at + 1 :]]


def _start_of(events: list[Event]) -> MessageStart | None:
    return next((event for event in events if isinstance(event, MessageStart)), None)


def _is_failure(event: Event) -> bool:
    return type(event) is ToolCallFailed


def _is_end(event: Event) -> bool:
    return type(event) is MessageEnd


def _is_same(said: Event, told: Event) -> bool:
    """Names of the message that the upstream left out are no difference."""
    return said == told or (isinstance(said, MessageStart) and isinstance(told, MessageStart))


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
