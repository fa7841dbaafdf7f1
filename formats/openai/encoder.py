"""Events → Chat Completions: chunks, or one whole completion.

A call's first delta has its id, type and name; it is sent with the first byte of the arguments, or
at the end of a call that has none. Calls are counted apart from everything else.
"""

from collections.abc import Iterable, Mapping

import msgspec

from formats.codec import encode_string, raw_string
from formats.conversation import Reasoning, RedactedReasoning, Text, ToolCall
from formats.errors import FailureKind
from formats.events import (
    Event,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
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
from formats.reply import Reply, ReplyOptions
from formats.verbatim import Frame

_encode = msgspec.json.encode

FINISH_REASONS: dict[StopReason, str] = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.PAUSE_TURN: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_EXCEEDED: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.REFUSAL: "content_filter",
}
_DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


class OpenAIEncoder:
    def __init__(self, options: ReplyOptions) -> None:
        self._options = options
        self._head = b""  # of every chunk: its id, time and model
        self._call: ToolCallStart | None = None  # one whose first delta has not been sent
        self._index = -1  # of the newest call
        self._details = -1  # the SDK merges details by their index

    def feed(self, events: Iterable[Event]) -> bytes:
        return b"".join([self._encode(event) for event in events])

    def resume(self, start: MessageStart, frame: Frame) -> None:
        """Go on behind what somebody else has written."""
        self._start(start)
        self._index = frame.index

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(text=text):
                return self._delta(b'{"content":%b}' % encode_string(text))
            case ToolCallDelta(json=json):
                opening = self._open_call()
                return opening + self._delta(
                    b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}'
                    % (self._index, encode_string(json))
                )
            case ReasoningDelta(text=text):
                return self._delta(b'{"reasoning_content":%b}' % encode_string(text))
            case ReasoningSignature(signature=signature):
                return self._detail(b"reasoning.text", b"signature", signature)
            case ReasoningRedacted(data=data):
                return self._detail(b"reasoning.encrypted", b"data", data)
            case MessageStart():
                return self._start(event)
            case ToolCallStart():
                self._call = event
            case ToolCallEnd() if self._call:
                return self._encode(ToolCallDelta("{}"))
            case ToolCallFailed():
                self._call = None
            case MessageEnd():
                return self._end(event)
            case MessageFailed(kind=kind, message=message):
                return (
                    b'data: {"error":%b,"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}'
                    b"\n\n" % _error(kind, message)
                )
            case ToolCallEnd() | Notice():
                pass
        return b""

    def _start(self, event: MessageStart) -> bytes:
        self._head = (
            b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":['
            % (encode_string(event.id), self._options.created, encode_string(event.model))
        )
        return self._delta(b'{"role":"assistant","content":""}')

    def _open_call(self) -> bytes:
        if self._call is None:
            return b""
        call, self._call = self._call, None
        self._index += 1
        return self._delta(
            b'{"tool_calls":[{"index":%d,"id":%b,"type":"function","function":'
            b'{"name":%b,"arguments":""}}]}'
            % (self._index, encode_string(call.id), encode_string(call.name))
        )

    def _detail(self, kind: bytes, field: bytes, value: str) -> bytes:
        self._details += 1
        return self._delta(
            b'{"reasoning_details":[{"index":%d,"type":"%b","format":"anthropic-claude-v1","%b":%b}]}'
            % (self._details, kind, field, encode_string(value))
        )

    def _delta(self, delta: bytes) -> bytes:
        return b'%b{"index":0,"delta":%b,"finish_reason":null}]}\n\n' % (self._head, delta)

    def _end(self, event: MessageEnd) -> bytes:
        finish = b'%b{"index":0,"delta":{},"finish_reason":"%b"}]}\n\n' % (
            self._head,
            FINISH_REASONS[event.stop_reason].encode(),
        )
        usage = b""
        if self._options.include_usage:
            usage = b'%b],"usage":%b}\n\n' % (self._head, _encode(_usage(event.usage)))
        return finish + usage + _DONE


def encode_reply(reply: Reply, options: ReplyOptions) -> bytes:
    """A whole completion."""
    message: dict[str, object] = {"role": "assistant", "content": None}
    text = "".join(part.text for part in reply.parts if isinstance(part, Text))
    reasoning = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
    details: list[dict[str, object]] = []
    calls: list[dict[str, object]] = []
    for part in reply.parts:
        match part:
            case Reasoning(signature=str(signature)) if signature:
                text_of_it = raw_string(part.text)
                details.append(
                    {"type": "reasoning.text", "text": text_of_it, "signature": signature}
                )
            case RedactedReasoning(data=data):
                details.append({"type": "reasoning.encrypted", "data": data})
            case ToolCall(id=call_id, name=name, arguments=arguments):
                function = {"name": name, "arguments": arguments.decode()}
                calls.append({"id": call_id, "type": "function", "function": function})
    if text or not calls:
        message["content"] = raw_string(text)
    if reasoning:
        message["reasoning_content"] = raw_string(reasoning)
    if details:
        message["reasoning_details"] = details
    if calls:
        message["tool_calls"] = calls
    return _encode(
        {
            "id": reply.id,
            "object": "chat.completion",
            "created": options.created,
            "model": reply.model,
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": None,
                    "finish_reason": FINISH_REASONS[reply.stop_reason],
                }
            ],
            "usage": _usage(reply.usage),
        }
    )


def encode_error(
    kind: FailureKind,
    message: str,
    *,
    request_id: str | None = None,
    details: Mapping[str, object] | None = None,
) -> bytes:
    """The body of an answer that failed before its first byte; `details` are Anthropic's."""
    body = b'{"error":' + _error(kind, message)
    return body + (b"}" if request_id is None else b',"request_id":%b}' % encode_string(request_id))


def _error(kind: FailureKind, message: str) -> bytes:
    return b'{"message":%b,"type":"%b","param":null,"code":"%b"}' % (
        encode_string(message),
        kind.encode(),
        kind.encode(),
    )


def _usage(usage: Usage) -> dict[str, object]:
    """Unknown counts are 0 here: the SDKs' type has no place for unknown."""
    read, written = usage.cache_read, usage.cache_creation
    prompt = (usage.input or 0) + (read or 0) + (written or 0)
    output = usage.output or 0
    counts: dict[str, object] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }
    details = {"cached_tokens": read, "cache_write_tokens": written}
    if known := {name: count for name, count in details.items() if count is not None}:
        counts["prompt_tokens_details"] = known
    return counts
