"""Messages of Chat Completions → messages of a conversation.

Calls and results may be where OpenAI has them, beside the content, or inside it as Anthropic's
blocks; a message may have both.
"""

from collections.abc import Collection, Iterator

import msgspec
from msgspec import Raw

from formats.arguments import Arguments, Status
from formats.conversation import (
    Message,
    Part,
    Reasoning,
    RedactedReasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.json_codec import encode_string
from formats.openai.content_parser import parse_content, parse_result, translated
from formats.openai.custom_tools import arguments_of
from formats.openai.request_wire import WireCall, WireFunction, WireMessage
from formats.request_errors import require

_ROLES = {"developer": Role.SYSTEM, "system": Role.SYSTEM, "user": Role.USER}
_UNPARSED = b'{"unparsed_arguments":'


class MessageParser:
    """Reads the messages of one request, whose custom tools it must know."""

    def __init__(self, notices: dict[Notice, None], custom: Collection[str] = ()) -> None:
        self.notices = notices
        self._custom = custom

    def parse(self, message: WireMessage, path: str) -> Message:
        """The message; raises ClientError."""
        if message.role == "developer":
            translated(self.notices, "developer role")  # which OpenAI alone knows
        match message.role:
            case "system" | "developer" | "user":
                return Message(_ROLES[message.role], self._said(message, ToolCall, path), path)
            case "tool" | "function":
                return Message(Role.USER, self._results(message, path), path)
            case "assistant":
                refusal = [Text(message.refusal)] if message.refusal else []
                said = self._said(message, ToolResult, path)
                calls = self._calls(message, path)
                return Message(
                    Role.ASSISTANT, (*_reasoning(message), *said, *refusal, *calls), path
                )
        raise ClientError(f"unknown role {message.role[:40]!r}", path=f"{path}.role")

    def call(self, call_id: str, function: WireFunction, path: str) -> ToolCall:
        """An earlier call of a function."""
        name = require(function.name, f"{path}.name")
        text = _arguments(function.arguments)
        if text.startswith(_UNPARSED) and isinstance(function.arguments, str):
            if name in self._custom:  # as some gateways show a custom tool's call to Cursor
                translated(self.notices, "custom tool call")
                text = arguments_of(function.arguments)
            else:
                detail = f"the arguments of {call_id}"
                self.notices[Notice(NoticeCode.HISTORY_SANITISED, detail)] = None
        return ToolCall(call_id, name, text)

    def custom_call(self, call_id: str, name: str | None, text: str | None, path: str) -> ToolCall:
        """An earlier call of a custom tool."""
        translated(self.notices, "custom tool call")
        return ToolCall(call_id, require(name, f"{path}.name"), arguments_of(text or ""))

    def _said(self, message: WireMessage, others: type[Part], path: str) -> tuple[Part, ...]:
        """The parts of a message; `others` is a part of the other side's."""
        parts = tuple(parse_content(message.content, f"{path}.content", self.notices))
        if any(isinstance(part, others) for part in parts):
            kind = "tool_use" if others is ToolCall else "tool_result"
            raise ClientError(
                f"{kind} is not allowed in a {message.role} message", path=f"{path}.content"
            )
        return parts

    def _results(self, message: WireMessage, path: str) -> tuple[Part, ...]:
        call_id = message.name if message.tool_call_id is None else message.tool_call_id
        if call_id is None:
            blocks = self._said(message, ToolCall, path)
            if blocks and all(isinstance(part, ToolResult) for part in blocks):
                return blocks
        content = parse_result(message.content, f"{path}.content", self.notices)
        return (ToolResult(require(call_id, f"{path}.tool_call_id"), tuple(content)),)

    def _calls(self, message: WireMessage, path: str) -> Iterator[ToolCall]:
        for index, call in enumerate(message.tool_calls or ()):
            yield self._call(call, f"{path}.tool_calls.{index}")
        if message.function_call is not None:
            # The legacy result names the function, not the call.
            name = require(message.function_call.name, f"{path}.function_call.name")
            yield self.call(name, message.function_call, f"{path}.function_call")

    def _call(self, call: WireCall, path: str) -> ToolCall:
        call_id = require(call.id, f"{path}.id")
        if call.custom is not None:
            custom = call.custom
            return self.custom_call(call_id, custom.name, custom.input, f"{path}.custom")
        return self.call(call_id, require(call.function, f"{path}.function"), f"{path}.function")


def _reasoning(message: WireMessage) -> Iterator[Part]:
    """The assistant's earlier reasoning; details are the form that keeps seals."""
    sealed = [d for d in message.reasoning_details or () if d.is_anthropic()]
    if any(detail.signature or detail.data for detail in sealed):
        for detail in sealed:
            if detail.data:
                yield RedactedReasoning(detail.data)
            else:
                yield Reasoning(detail.text or "", detail.signature)
    elif reasoning := message.reasoning_content or message.reasoning:
        yield Reasoning(reasoning)


def _arguments(arguments: str | dict[str, Raw] | None) -> bytes:
    """The arguments of an earlier call. What is not an object would be refused by every upstream,
    for the rest of the conversation, so it is wrapped into one."""
    if isinstance(arguments, dict):
        return msgspec.json.encode(arguments)
    text = (arguments or "").strip()
    scan = Arguments()
    forward, end = scan.read(text)
    scan.finish()
    if scan.status is Status.EMPTY:
        return b"{}"
    if scan.status is Status.COMPLETE and end == len(text):
        return forward.encode() or b"{}"
    return _UNPARSED + encode_string(text) + b"}"
