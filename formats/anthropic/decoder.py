"""Anthropic Messages → events: a stream, or one whole message.

Blocks arrive one after another; a call whose block another block, or the end of the message, leaves
open has failed. Events and blocks of unknown types are noticed and passed over.
"""

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from formats.arguments import Arguments, Status
from formats.codec import ABSENT, decode, given
from formats.errors import DEFAULT_LIMITS, KIND_OF_NAME, FailureKind, Limits, UpstreamError
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
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    Usage,
)
from formats.sse import EventDecoder

_T = TypeVar("_T")

_ERROR_CHARS = 2000


class WireUsage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    def counts(self) -> Usage:
        return Usage(
            input=self.input_tokens,
            output=self.output_tokens,
            cache_read=self.cache_read_input_tokens,
            cache_creation=self.cache_creation_input_tokens,
        )


class Block(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    data: str = ""
    id: str = ""
    name: str = ""
    input: Raw = ABSENT


class Delta(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None


class WireMessage(Struct):
    id: str = ""
    model: str = ""
    content: list[Block] = []
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: WireUsage | None = None


class WireError(Struct):
    type: str = ""
    message: str = ""


class WireEvent(Struct):
    type: str = ""
    index: int | None = None
    message: WireMessage | None = None
    content_block: Block | None = None
    delta: Delta | None = None
    usage: WireUsage | None = None
    error: WireError | None = None


class WholeMessage(WireMessage):
    type: str = ""
    error: WireError | None = None


_events = msgspec.json.Decoder(WireEvent)
_messages = msgspec.json.Decoder(WholeMessage)


class AnthropicDecoder:
    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.served_by: str | None = None
        self._limits = limits
        self._sse = EventDecoder(limits)
        self._out: list[Event] = []
        self._call: _Call | None = None
        self._stop: Delta | None = None  # held until message_stop, for the usage beside it
        self._usage = UNKNOWN_USAGE
        self._done = False

    def feed(self, data: bytes) -> list[Event]:
        for _, payload in self._sse.feed(data):
            self._read(payload)
        return self.take()

    def close(self) -> list[Event]:
        """The last events; raises UpstreamError when the message has no end."""
        for _, payload in self._sse.close():
            self._read(payload)
        if not self._done:
            self._end()
        return self.take()

    def read_whole(self, body: bytes) -> list[Event]:
        """The events of a message that came as one JSON document."""
        message = _decoded(_messages, body)
        if message.error is not None:
            raise _failure(message.error)
        self._start(message)
        for block in message.content:
            self._start_block(block)
            self._stop_block()
        self._stop = Delta(stop_reason=message.stop_reason, stop_sequence=message.stop_sequence)
        self._end()
        return self.take()

    def take(self) -> list[Event]:
        """The events that were read before an error was raised."""
        out, self._out = self._out, []
        return out

    def _read(self, data: bytes) -> None:
        if self._done or data == b"[DONE]":
            return
        event = _decoded(_events, data)
        match event.type:
            case "content_block_delta" if event.delta:
                self._read_delta(event.delta)
            case "content_block_start" if event.content_block:
                self._give_up_call()
                self._start_block(event.content_block)
            case "content_block_stop":
                self._stop_block()
            case "message_start" if event.message:
                self._start(event.message)
            case "message_delta":
                if event.usage:
                    self._usage = self._usage.updated(event.usage.counts())
                if event.delta and event.delta.stop_reason:
                    self._stop = event.delta
            case "message_stop":
                self._end()
            case "error":
                raise _failure(event.error or WireError())
            case "ping":
                pass
            case _:
                self._out.append(Notice(NoticeCode.UNKNOWN_EVENT, event.type))

    def _start(self, message: WireMessage) -> None:
        if message.usage:
            self._usage = message.usage.counts()
        self._out.append(MessageStart(message.id, message.model, self._usage))

    def _start_block(self, block: Block) -> None:
        match block.type:
            case "text":
                self._add_text(block.text)
            case "thinking":
                self._add_reasoning(block.thinking)
                if block.signature:
                    self._out.append(ReasoningSignature(block.signature))
            case "redacted_thinking":
                self._out.append(ReasoningRedacted(block.data))
            case "tool_use":
                self._call = _Call(block, self._limits)
                self._out.append(ToolCallStart(block.id, block.name))
            case _:
                self._out.append(Notice(NoticeCode.CONTENT_UNSUPPORTED, block.type))

    def _read_delta(self, delta: Delta) -> None:
        match delta.type:
            case "text_delta":
                self._add_text(delta.text)
            case "input_json_delta" if self._call:
                self._out += self._call.read(delta.partial_json)
            case "thinking_delta":
                self._add_reasoning(delta.thinking)
            case "signature_delta":
                if delta.signature:
                    self._out.append(ReasoningSignature(delta.signature))
            case "input_json_delta":
                pass  # of a server tool, which is noticed at its start
            case _:
                self._out.append(Notice(NoticeCode.UNKNOWN_EVENT, delta.type))

    def _add_text(self, text: str) -> None:
        if text:
            self._out.append(TextDelta(text))

    def _add_reasoning(self, text: str) -> None:
        if text:
            self._out.append(ReasoningDelta(text))

    def _stop_block(self) -> None:
        if self._call:
            self._out += self._call.stop()
            self._call = None

    def _give_up_call(self) -> None:
        if self._call:
            self._out += self._call.give_up()
            self._call = None

    def _end(self) -> None:
        if self._stop is None:
            raise UpstreamError("The upstream's answer ended without a stop reason")
        self._give_up_call()
        try:
            reason = StopReason(self._stop.stop_reason or "")
        except ValueError:
            reason = StopReason.END_TURN
        self._out.append(MessageEnd(reason, self._stop.stop_sequence, self._usage))
        self._done = True


class _Call:
    def __init__(self, block: Block, limits: Limits) -> None:
        self._arguments = Arguments(limits)
        self._whole = (given(block.input) or b"").decode()  # what the block itself brought
        self._failed = False

    def read(self, text: str) -> list[Event]:
        if self._failed:
            return []
        forward, end = self._arguments.read(text)
        events: list[Event] = [ToolCallDelta(forward)] if forward else []
        if self._arguments.status is Status.NON_OBJECT:
            return [*events, *self._fail(CallFault.NON_OBJECT_ARGS)]
        if self._arguments.status is Status.INVALID or text[end:].strip():
            return [*events, *self._fail(CallFault.INVALID_JSON)]
        return events

    def stop(self) -> list[Event]:
        events: list[Event] = []
        if self._arguments.status is Status.EMPTY and not self._failed:
            events = self.read(self._whole)
        self._arguments.finish()
        if self._failed:
            return events
        if self._arguments.status in (Status.EMPTY, Status.COMPLETE):
            return [*events, ToolCallEnd()]
        return [*events, *self._fail(CallFault.TRUNCATED)]

    def give_up(self) -> list[Event]:
        return [] if self._failed else self._fail(CallFault.TRUNCATED)

    def _fail(self, fault: CallFault) -> list[Event]:
        self._failed = True
        return [ToolCallFailed(fault)]


def _decoded(decoder: "msgspec.json.Decoder[_T]", data: bytes) -> _T:
    try:
        return decode(decoder, data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UpstreamError(
            f"The upstream sent an event that cannot be read: {error}",
            kind=FailureKind.TRANSFORMATION,
        ) from error


def _failure(error: WireError) -> UpstreamError:
    message = error.message or "The upstream reported an error without a message"
    return UpstreamError(
        message[:_ERROR_CHARS],
        kind=KIND_OF_NAME.get(error.type, FailureKind.UPSTREAM),
    )
