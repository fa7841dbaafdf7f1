"""Events → Chat Completions: chunks, or one whole completion.

The first delta of a call has its id, type and name. It is sent with the first byte of the
arguments, or at the end of a call without arguments. Calls are numbered separately from other
content. Only fields that OpenAI's API defines are sent, except for reasoning, for which it has no
field: its text is in DeepSeek's `reasoning_content`, and Anthropic's signatures are in OpenRouter's
`reasoning_details`.
"""

from collections.abc import Iterable, Mapping

from formats.conversation import Reasoning, RedactedReasoning, Text, ToolCall
from formats.errors import TEMPORARY, FailureKind, message_with_id
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
from formats.json_codec import encode, encode_string
from formats.openai.custom_tools import InputReader
from formats.passthrough import Frame
from formats.reply import Reply, ReplyOptions

FINISH_REASONS: dict[StopReason, str] = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.PAUSE_TURN: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_EXCEEDED: "length",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.REFUSAL: "content_filter",
}
SERVER_ERROR = "server_error"
"""OpenAI's type and code for faults that are not the client's: SDKs and agents retry it."""
_SERVER_ERRORS = TEMPORARY | {FailureKind.TRANSFORMATION, FailureKind.INTERNAL}
_DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


class OpenAIEncoder:
    terminator = _DONE

    def __init__(self, options: ReplyOptions) -> None:
        self._options = options
        self._head = b""  # the start of every chunk: id, time and model
        self._call: ToolCallStart | None = None  # set while its first delta is unsent
        self._index = -1  # index of the newest call
        self._input: InputReader | None = None  # set for a call of a custom tool
        self._details = -1  # index of the newest detail: the SDK merges details by index

    def feed(self, events: Iterable[Event]) -> bytes:
        return b"".join([self._encode(event) for event in events])

    def resume(self, start: MessageStart, frame: Frame) -> None:
        """Continue after bytes of the upstream that were passed through."""
        self._start(start)
        self._index = frame.index

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(text=text):
                return self._delta(b'{"content":%b}' % encode_string(text))
            case ToolCallDelta(json=json):
                opening = self._open_call()
                if self._input:
                    return opening + self._input_delta(self._input.feed(json))
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
                self._input = InputReader() if event.is_custom else None
            case ToolCallEnd() if self._call:
                return self._open_call() if self._input else self._encode(ToolCallDelta("{}"))
            case ToolCallFailed():
                self._call = None
            case MessageEnd():
                return self._end(event)
            case MessageFailed(kind=kind, message=message, is_final=is_final):
                error = encode_error(
                    kind, message, request_id=self._options.request_id, is_final=is_final
                )
                return b"data: %b\n\n" % error
            case ToolCallEnd() | Notice():
                pass
        return b""

    def _start(self, event: MessageStart) -> bytes:
        created = event.created or self._options.created
        self._head = (
            b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":['
            % (encode_string(event.id), created, encode_string(event.model))
        )
        return self._delta(b'{"role":"assistant","content":""}')

    def _open_call(self) -> bytes:
        if self._call is None:
            return b""
        call, self._call = self._call, None
        self._index += 1
        kind, text = (b"custom", b"input") if call.is_custom else (b"function", b"arguments")
        return self._delta(
            b'{"tool_calls":[{"index":%d,"id":%b,"type":"%b","%b":{"name":%b,"%b":""}}]}'
            % (self._index, encode_string(call.id), kind, kind, encode_string(call.name), text)
        )

    def _input_delta(self, text: str) -> bytes:
        if not text:
            return b""
        return self._delta(
            b'{"tool_calls":[{"index":%d,"custom":{"input":%b}}]}'
            % (self._index, encode_string(text))
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
            usage = b'%b],"usage":%b}\n\n' % (self._head, encode(_usage(event.usage)))
        return finish + usage + _DONE


def encode_reply(reply: Reply, options: ReplyOptions) -> bytes:
    """Encode a whole completion."""
    message: dict[str, object] = {"role": "assistant", "content": None}
    text = "".join(part.text for part in reply.parts if isinstance(part, Text))
    reasoning = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
    details: list[dict[str, object]] = []
    calls: list[dict[str, object]] = []
    for part in reply.parts:
        match part:
            case Reasoning(signature=str(signature)) if signature:
                details.append(
                    {"type": "reasoning.text", "text": part.text, "signature": signature}
                )
            case RedactedReasoning(data=data):
                details.append({"type": "reasoning.encrypted", "data": data})
            case ToolCall(is_custom=True):
                tool_input = InputReader().feed(part.arguments.decode())
                custom = {"name": part.name, "input": tool_input}
                calls.append({"id": part.id, "type": "custom", "custom": custom})
            case ToolCall():
                function = {"name": part.name, "arguments": part.arguments.decode()}
                calls.append({"id": part.id, "type": "function", "function": function})
    if text or not calls:
        message["content"] = text
    if reasoning:
        message["reasoning_content"] = reasoning
    if details:
        message["reasoning_details"] = details
    if calls:
        message["tool_calls"] = calls
    return encode(
        {
            "id": reply.id,
            "object": "chat.completion",
            "created": reply.created or options.created,
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
    param: str | None = None,
    details: Mapping[str, object] | None = None,
    is_final: bool = False,
) -> bytes:
    """Encode an error, for a stream or as a response body.

    `param` is the field of the request that caused the error. `details` are only for Anthropic.
    """
    name = SERVER_ERROR if kind in _SERVER_ERRORS and not is_final else kind.value
    body = b'{"error":' + _error(name, message_with_id(message, request_id), param)
    return body + (b"}" if request_id is None else b',"request_id":%b}' % encode_string(request_id))


def _error(name: str, message: str, param: str | None = None) -> bytes:
    return b'{"message":%b,"type":"%b","param":%b,"code":"%b"}' % (
        encode_string(message),
        name.encode(),
        encode_string(param) if param else b"null",
        name.encode(),
    )


def _usage(usage: Usage) -> dict[str, object]:
    """Unknown counts become 0: the SDKs require numbers."""
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
