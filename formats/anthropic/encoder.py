"""Events → Anthropic Messages: a stream, or one whole message. The only code that frames blocks.

Claude Code runs a tool as soon as its block ends, with `{}` if there were no arguments. Therefore
the block of a call starts with the first byte of its arguments (or at its end), and the block of a
failed call stays open. If the message ends normally after that, the block ends, too: the client
gets a stop reason other than `tool_use` and arguments that are not JSON, as from Anthropic itself.

Thinking without a signature gets an empty one, never one that is made up.
"""

from collections.abc import Iterable, Mapping

import msgspec

from formats.conversation import Reasoning, RedactedReasoning, Text, ToolCall
from formats.errors import TEMPORARY, FailureKind, message_with_id
from formats.events import (
    CallFault,
    Event,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    Usage,
)
from formats.json_codec import encode, encode_string
from formats.passthrough import Frame
from formats.reply import Reply, ReplyOptions
from formats.sse import encode_event

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_EMPTY_TEXT = b'{"type":"text","text":""}'
_EMPTY_THINKING = b'{"type":"thinking","thinking":"","signature":""}'
# The delta type of each kind of block, and the field of its text.
_DELTAS: dict[type[Event] | None, tuple[bytes, bytes]] = {
    TextDelta: (b"text_delta", b"text"),
    ReasoningDelta: (b"thinking_delta", b"thinking"),
    ReasoningSignature: (b"signature_delta", b"signature"),
    ToolCallDelta: (b"input_json_delta", b"partial_json"),
}


class AnthropicEncoder:
    terminator = _STOP

    def __init__(self, options: ReplyOptions) -> None:
        self._request_id = options.request_id
        self._input_estimate = max(options.input_estimate, 1)
        self._block: type[Event] | None = None  # the type of the open block's deltas
        self._index = -1
        self._head = b""  # the start of the open block's deltas
        self._call: ToolCallStart | None = None  # set while its block has not started
        self._left_open: list[int] = []  # blocks of failed calls; they end if the message does

    def feed(self, events: Iterable[Event]) -> bytes:
        parts: list[bytes] = []
        for event in events:
            if type(event) is not self._block:
                parts.append(self._encode(event))
            elif type(event) is TextDelta or type(event) is ReasoningDelta:
                parts.append(b"%b%b}}\n\n" % (self._head, encode_string(event.text)))
            elif type(event) is ToolCallDelta:
                parts.append(b"%b%b}}\n\n" % (self._head, encode_string(event.json)))
        return b"".join(parts)

    def resume(self, start: MessageStart, frame: Frame) -> None:
        """Continue after bytes of the upstream that were passed through."""
        self._index = frame.index
        self._set_block(frame.delta_type)

    def _encode(self, event: Event) -> bytes:
        match event:
            case TextDelta(text=text):
                opening = b"" if self._block is TextDelta else self._open(TextDelta, _EMPTY_TEXT)
                return opening + self._delta(text)
            case ToolCallDelta(json=json):
                return self._open_call() + self._delta(json)
            case ReasoningDelta(text=text):
                return self._open_thinking() + self._delta(text)
            case ReasoningSignature(signature=signature):
                opening = self._open_thinking()
                self._set_block(ReasoningSignature)
                return opening + self._delta(signature) + self._close()
            case ReasoningRedacted(data=data):
                block = b'{"type":"redacted_thinking","data":%b}' % encode_string(data)
                return self._open(ReasoningRedacted, block) + self._close()
            case MessageStart():
                return self._start(event)
            case ToolCallStart():
                self._call = event
                return self._close()
            case ToolCallEnd():
                return (self._encode(ToolCallDelta("{}")) if self._call else b"") + self._close()
            case ToolCallFailed(fault=fault):
                self._fail_call(is_closed_later=fault is not CallFault.SUPERSEDED)
            case MessageEnd():
                return self._end(event)
            case MessageFailed():
                closing = b"" if self._block is ToolCallDelta else self._close()
                return closing + encode_event("error", self._error(event)) + _STOP
            case Notice():
                pass
        return b""

    def _start(self, event: MessageStart) -> bytes:
        usage = _usage(event.usage)
        usage.setdefault("input_tokens", self._input_estimate)
        return encode_event(
            "message_start",
            b'{"type":"message_start","message":{"id":%b,"type":"message","role":"assistant",'
            b'"model":%b,"content":[],"stop_reason":null,"stop_sequence":null,"usage":%b}}'
            % (encode_string(event.id), encode_string(event.model), encode(usage)),
        )

    def _open(self, delta_type: type[Event], block: bytes) -> bytes:
        closing = self._close()
        self._index += 1
        self._set_block(delta_type)
        return closing + encode_event(
            "content_block_start",
            b'{"type":"content_block_start","index":%d,"content_block":%b}' % (self._index, block),
        )

    def _open_thinking(self) -> bytes:
        if self._block is ReasoningDelta:
            return b""
        return self._open(ReasoningDelta, _EMPTY_THINKING)

    def _open_call(self) -> bytes:
        if self._call is None:
            return b""
        call, self._call = self._call, None
        return self._open(
            ToolCallDelta,
            b'{"type":"tool_use","id":%b,"name":%b,"input":{}}'
            % (encode_string(call.id), encode_string(call.name)),
        )

    def _fail_call(self, *, is_closed_later: bool) -> None:
        if self._block is ToolCallDelta:
            if is_closed_later:
                self._left_open.append(self._index)
            self._block = None
        self._call = None

    def _set_block(self, delta_type: type[Event] | None) -> None:
        self._block = delta_type
        if delta_type in _DELTAS:
            self._head = self._delta_head(*_DELTAS[delta_type])

    def _delta_head(self, kind: bytes, field: bytes) -> bytes:
        return (
            b"event: content_block_delta\ndata: "
            b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
            % (self._index, kind, field)
        )

    def _delta(self, value: str) -> bytes:
        return b"%b%b}}\n\n" % (self._head, encode_string(value))

    def _close(self) -> bytes:
        unsigned = b""
        if self._block is None:
            return b""
        if self._block is ReasoningDelta:  # Vercel's AI SDK drops thinking without this event
            self._set_block(ReasoningSignature)
            unsigned = self._delta("")
        self._block = None
        return unsigned + self._stop_block(self._index)

    def _stop_block(self, index: int) -> bytes:
        return encode_event(
            "content_block_stop", b'{"type":"content_block_stop","index":%d}' % index
        )

    def _error(self, event: MessageFailed) -> bytes:
        kind = event.kind
        if kind in TEMPORARY:  # inside a stream there is no status that tells clients to retry
            kind = FailureKind.UPSTREAM if event.is_final else FailureKind.OVERLOADED
        return encode_error(kind, event.message, request_id=self._request_id)

    def _end(self, event: MessageEnd) -> bytes:
        closing = self._close()
        if self._index < 0:  # an empty answer: some SDKs read content[0]
            closing = self._open(TextDelta, _EMPTY_TEXT) + self._close()
        closing += b"".join(map(self._stop_block, self._left_open))
        delta = {"stop_reason": event.stop_reason, "stop_sequence": event.stop_sequence}
        body = {"type": "message_delta", "delta": delta, "usage": _usage(event.usage)}
        return closing + encode_event("message_delta", encode(body)) + _STOP


def encode_reply(reply: Reply, options: ReplyOptions) -> bytes:
    """Encode a whole message."""
    usage = {"input_tokens": options.input_estimate} | _usage(reply.usage)
    content: list[dict[str, object]] = []
    for part in reply.parts:
        match part:
            case Text(text=text):
                content.append({"type": "text", "text": text})
            case Reasoning(text=text, signature=signature):
                content.append(
                    {
                        "type": "thinking",
                        "thinking": text,
                        "signature": signature or "",
                    }
                )
            case RedactedReasoning(data=data):
                content.append({"type": "redacted_thinking", "data": data})
            case ToolCall(id=call_id, name=name, arguments=arguments):
                call = {"type": "tool_use", "id": call_id, "name": name}
                content.append(call | {"input": msgspec.Raw(arguments)})
    return encode(
        {
            "id": reply.id,
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "content": content or [{"type": "text", "text": ""}],
            "stop_reason": reply.stop_reason,
            "stop_sequence": reply.stop_sequence,
            "usage": usage,
        }
    )


def encode_error(
    kind: FailureKind,
    message: str,
    *,
    request_id: str | None = None,
    param: str | None = None,
    details: Mapping[str, object] | None = None,
) -> bytes:
    """Encode an error, for a stream or as a response body. `param` is only for OpenAI."""
    shown = FailureKind.UPSTREAM if kind is FailureKind.INTERNAL else kind
    error: dict[str, object] = {"type": shown, "message": message_with_id(message, request_id)}
    if details:
        error["details"] = details
    body: dict[str, object] = {"type": "error", "error": error}
    if request_id is not None:
        body["request_id"] = request_id
    return encode(body)


def _usage(usage: Usage) -> dict[str, int]:
    """The known counts. The SDKs require `output_tokens`, so it is 0 if unknown."""
    counts = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_creation,
        "cache_read_input_tokens": usage.cache_read,
    }
    known = {name: count for name, count in counts.items() if count is not None}
    return known | {"output_tokens": usage.output or 0}
