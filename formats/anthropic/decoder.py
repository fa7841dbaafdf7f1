"""Anthropic Messages → events: a stream, or one whole message.

Anthropic sends blocks one after another; relays interleave them. The oldest open call streams, and
everything that arrives before its block ends is deferred. A call whose block never ends has failed.
Events and blocks of unknown types give a notice and are skipped.
"""

from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import TypeVar

import msgspec

from formats.anthropic.call_assembly import Call
from formats.anthropic.response_wire import (
    Block,
    CompleteMessage,
    Delta,
    WholeMessage,
    WireError,
    WireEvent,
    WireMessage,
)
from formats.errors import (
    DEFAULT_LIMITS,
    KIND_OF_NAME,
    FailureKind,
    LimitExceeded,
    Limits,
    UpstreamError,
)
from formats.events import (
    UNKNOWN_USAGE,
    CallFault,
    Event,
    MessageEnd,
    MessageStart,
    Notice,
    NoticeCode,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallFailed,
    merge_deltas,
)
from formats.json_codec import conforms, decode, value_or_none
from formats.passthrough import Frame
from formats.sse import EventDecoder
from formats.upstream_errors import (
    foreign_document,
    read_document,
    truncated_answer,
    unreadable_part,
)

_T = TypeVar("_T")

_ERROR_CHARS = 2000
_NO_INPUT = (None, b"{}")
_DELTA_TYPES: dict[str | None, type[Event]] = {
    "text": TextDelta,
    "thinking": ReasoningDelta,
    "tool_use": ToolCallDelta,
}

# What a strict client accepts: the blocks in which a delta may be, the text that a delta must have,
# and the fields that the start of a block must have.
_ANY_BLOCK = frozenset({TextDelta, ReasoningDelta, ReasoningSignature, ToolCallDelta, Notice})
_BLOCKS_OF_DELTAS: dict[str | None, frozenset[type[Event]]] = {
    "text_delta": frozenset({TextDelta}),
    "thinking_delta": frozenset({ReasoningDelta}),
    "signature_delta": frozenset({ReasoningDelta, ReasoningSignature}),
    "input_json_delta": frozenset({ToolCallDelta, Notice}),
}
_TEXTS: dict[str, Callable[[Delta], str | None]] = {
    "text_delta": attrgetter("text"),
    "thinking_delta": attrgetter("thinking"),
    "signature_delta": attrgetter("signature"),
    "input_json_delta": attrgetter("partial_json"),
}
_REQUIRED: dict[str | None, Callable[[Block], bool]] = {
    "text": lambda block: block.text is not None,
    "thinking": lambda block: block.thinking is not None,
    "tool_use": lambda block: bool(block.id and block.name),
    None: lambda block: False,
}
_KNOWN_EVENTS = frozenset({"message_start", "content_block_start", "content_block_delta"})

_events = msgspec.json.Decoder(WireEvent)
_messages = msgspec.json.Decoder(WholeMessage)
_complete_messages = msgspec.json.Decoder(CompleteMessage)


class AnthropicDecoder:
    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.served_by: str | None = None
        self.is_irregular = False
        self.is_terminated = False
        self.frame = Frame()
        self._limits = limits
        self._sse = EventDecoder(limits)
        self._out: list[Event] = []
        # Open blocks by index; None if the block is not a call.
        self._blocks: dict[int | None, Call | None] = {}
        self._ended: set[int | None] = set()  # indices of calls whose block has ended
        self._queue: deque[Call] = deque()  # unfinished calls, oldest first
        self._deferred: list[Event] = []  # events that arrived while a call was open
        self._deferred_chars = 0
        self._is_empty_block = False  # the newest block is text, and has no characters yet
        self._stop: Delta | None = None  # held until message_stop, because usage may follow
        self.usage = UNKNOWN_USAGE
        self.event_count = 0
        self._started = False
        self._done = False

    @property
    def has_pending(self) -> bool:
        """True if something was read that is not in any event yet."""
        if (
            self._stop is not None
            or self._deferred
            or self._is_empty_block
            or len(self._blocks) > 1
        ):
            return not self._done
        return bool(self._queue) and (len(self._queue) > 1 or self._queue[0].has_pending)

    def feed(self, data: bytes) -> list[Event]:
        events = self._sse.feed(data)
        self.event_count += len(events)
        self.is_irregular = self.is_irregular or self._sse.is_unusual
        for name, payload in events:
            self._read(name, payload)
        if self._sse.error is not None:
            raise self._sse.error
        return self.take()

    def close(self) -> list[Event]:
        """The last events; raises UpstreamError if the message has no end."""
        for name, payload in self._sse.close():
            self._read(name, payload)
        if self._sse.error is not None:
            raise self._sse.error
        if not self._done:
            self._end()
        return self.take()

    def read_whole(self, body: bytes) -> list[Event]:
        """The events of a message that came as one JSON document."""
        self.is_terminated = True
        message = read_document(_messages, body, "a message")
        if message.error is not None:
            raise _reported_error(message.error)
        if message.content is None or message.type not in (None, "message"):
            raise foreign_document(body)
        self.is_irregular = not conforms(_complete_messages, body)
        self._start(message)
        if not message.stop_reason:
            if not message.content or any(block.type == "tool_use" for block in message.content):
                raise truncated_answer("a stop reason")
            self._add(Notice(NoticeCode.FINISH_REASON_MISSING))
        for index, block in enumerate(message.content or ()):
            self._start_block(index, block)
            self._stop_block(index)
        self._stop = Delta(stop_reason=message.stop_reason, stop_sequence=message.stop_sequence)
        self._end()
        return self.take()

    def take(self) -> list[Event]:
        """The events that were read before an error was raised."""
        out, self._out = merge_deltas(self._out), []
        return out

    def _read(self, name: bytes, data: bytes) -> None:
        if self._done:  # data after the end is not read, so it must not be passed through
            self.is_irregular = True
            return
        if data.strip() in (b"[DONE]", b"", b"null"):
            self.is_irregular = True
            self.event_count -= 1
            return
        event = _decode(_events, data)
        if name.decode(errors="replace") != event.type:  # clients go by the name
            self.is_irregular = True
        match event.type:
            case "content_block_delta" if event.delta:
                self._check_delta(event.index, event.delta)
                self._is_empty_block = False
                if event.delta.type == "signature_delta":
                    self.frame = Frame(self.frame.index, ReasoningSignature)
                self._read_delta(event.index, event.delta)
            case "content_block_start" if event.content_block:
                self._frame_block(event.index, event.content_block)
                self._start_block(event.index, event.content_block)
            case "content_block_stop":
                if event.index != self.frame.index or self.frame.delta_type is None:
                    self.is_irregular = True  # not the open block
                else:
                    if self.frame.delta_type is ReasoningDelta:  # without any signature
                        self.is_irregular = True
                    self.frame, self._is_empty_block = Frame(self.frame.index), False
                self._stop_block(event.index)
            case "message_start" if event.message and not self._started:
                self._start(event.message)
            case "message_delta":
                if self.frame.delta_type is not None or not (event.delta and event.usage):
                    self.is_irregular = True
                if self._stop is not None or not self._started:
                    self.is_irregular = True
                if event.usage:
                    self.usage = self.usage.updated(event.usage.counts())
                if event.delta and event.delta.stop_reason:
                    self._stop = event.delta
            case "message_stop":
                self.is_terminated = True
                self._end()
            case "error":
                raise _reported_error(event.error or WireError())
            case "ping":
                self.event_count -= 1
            case _:
                self.is_irregular = self.is_irregular or event.type in _KNOWN_EVENTS
                self._add(Notice(NoticeCode.UNKNOWN_EVENT, event.type or ""))

    def _frame_block(self, index: int | None, block: Block) -> None:
        # Claude Code ignores content in the start of a block.
        content = block.text or block.thinking or block.signature
        if content or value_or_none(block.input) not in _NO_INPUT or index != self.frame.index + 1:
            self.is_irregular = True
        if self.frame.delta_type is not None or self._stop is not None or not self._started:
            self.is_irregular = True  # another block is open, or none may be opened here
        if block.type in _REQUIRED and not _REQUIRED[block.type](block):
            self.is_irregular = True
        self.frame = Frame(self.frame.index + 1, _DELTA_TYPES.get(block.type, Notice))
        self._is_empty_block = block.type in ("text", "thinking")

    def _check_delta(self, index: int | None, delta: Delta) -> None:
        """Check that the delta is one of the open block."""
        kind, frame = delta.type, self.frame
        if (
            index != frame.index
            or frame.delta_type not in _BLOCKS_OF_DELTAS.get(kind, _ANY_BLOCK)
            or kind is None
            or (kind in _TEXTS and _TEXTS[kind](delta) is None)
        ):
            self.is_irregular = True

    def _start(self, message: WireMessage) -> None:
        self._started = True
        if message.usage:
            self.usage = message.usage.counts()
        self._out.append(MessageStart(message.id or "", message.model or "", self.usage))

    def _start_block(self, index: int | None, block: Block) -> None:
        self._blocks[index] = None
        match block.type:
            case "text":
                self._add_text(block.text)
            case "thinking":
                self._add_reasoning(block.thinking)
                if block.signature:
                    self._add(ReasoningSignature(block.signature))
            case "redacted_thinking":
                self._add(ReasoningRedacted(block.data or ""))
            case "tool_use":
                call = self._blocks[index] = Call(block, self._limits)
                self._queue.append(call)
                self._advance()
            case _:
                self._add(Notice(NoticeCode.CONTENT_UNSUPPORTED, block.type or ""))

    def _read_delta(self, index: int | None, delta: Delta) -> None:
        match delta.type:
            case "text_delta":
                self._add_text(delta.text)
            case "input_json_delta":
                self._read_arguments(index, delta.partial_json or "")
            case "thinking_delta":
                self._add_reasoning(delta.thinking)
            case "signature_delta":
                if delta.signature:
                    self._add(ReasoningSignature(delta.signature))
            case _:
                self._add(Notice(NoticeCode.UNKNOWN_EVENT, delta.type or ""))

    def _read_arguments(self, index: int | None, fragment: str) -> None:
        call = self._blocks.get(index)
        if call is None:
            if index in self._ended and fragment.strip():
                self._add(ToolCallFailed(CallFault.INVALID_JSON, "arguments after the block"))
            return
        call.add(fragment)
        if call is not self._queue[0]:
            self._count_deferred(len(fragment))
        self._advance()

    def _add_text(self, text: str | None) -> None:
        if text:
            self._add(TextDelta(text))

    def _add_reasoning(self, text: str | None) -> None:
        if text:
            self._add(ReasoningDelta(text))

    def _add(self, event: Event) -> None:
        if not self._started and type(event) is not Notice:
            self.is_irregular = True
            self._start(WireMessage())
        if not self._queue:
            self._out.append(event)
            return
        self._deferred.append(event)
        if isinstance(event, TextDelta | ReasoningDelta):
            self._count_deferred(len(event.text))

    def _count_deferred(self, chars: int) -> None:
        self._deferred_chars += chars
        if self._deferred_chars > self._limits.held_chars:
            raise LimitExceeded("held_chars", self._limits.held_chars)

    def _stop_block(self, index: int | None) -> None:
        if call := self._blocks.pop(index, None):
            self._ended.add(index)
            call.stop()
            self._advance()

    def _advance(self) -> None:
        """Stream the oldest call. When its block has ended, continue with the next."""
        if not self._started:
            self.is_irregular = True
            self._start(WireMessage())
        while self._queue:
            self._out += self._queue[0].stream()
            self.is_irregular = self.is_irregular or not self._queue[0].is_plain
            if not self._queue[0].stopped:
                return
            self._queue.popleft()
        self._out += self._deferred
        self._deferred, self._deferred_chars = [], 0

    def _end(self) -> None:
        if self._stop is None:
            raise truncated_answer("a stop reason")
        if self._blocks:  # a client may drop a block that has not ended
            self.is_irregular = True
        for call in self._queue:
            call.abandon()
        self._advance()
        try:
            reason = StopReason(self._stop.stop_reason or "")
        except ValueError:
            reason = StopReason.END_TURN
        self._add(MessageEnd(reason, self._stop.stop_sequence, self.usage))
        self._done = True


def _decode(decoder: "msgspec.json.Decoder[_T]", data: bytes) -> _T:
    try:
        return decode(decoder, data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable_part("an event", error) from error


def _reported_error(error: WireError | str) -> UpstreamError:
    if isinstance(error, str):
        error = WireError(message=error)
    message = str(error.message or "The upstream reported an error without a message")
    kind = KIND_OF_NAME.get(str(error.type), FailureKind.UPSTREAM)
    return UpstreamError(message[:_ERROR_CHARS], kind=kind)
