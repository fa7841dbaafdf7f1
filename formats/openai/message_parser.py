"""Parses messages of Chat Completions into messages of a conversation.

Calls and results may be in fields of the message, as OpenAI defines them, or in its content, as
Anthropic's blocks; one message may have both.
"""

from collections.abc import Collection, Iterator

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from formats.arguments import Arguments, Status
from formats.conversation import (
    CacheMark,
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
from formats.openai.content_parser import note_translation, parse_content, parse_mark, parse_result
from formats.openai.custom_tools import wrap_input
from formats.openai.request_wire import WireCall, WireFunction, WireMessage
from formats.request_errors import require

_ROLES = {"developer": Role.SYSTEM, "system": Role.SYSTEM, "user": Role.USER}
_UNPARSED = b'{"unparsed_arguments":'


class MessageParser:
    """Parses the messages of one request; `custom` are the names of its custom tools."""

    def __init__(self, notices: dict[Notice, None], custom: Collection[str] = ()) -> None:
        self.notices = notices
        self._custom = custom

    def parse(self, message: WireMessage, path: str) -> Message:
        """Parse one message; raises ClientError."""
        parsed = self._parse(message, path)
        if message.cache_control and (mark := parse_mark(message.cache_control, self.notices)):
            return replace(parsed, parts=_with_mark(parsed.parts, mark))
        return parsed

    def _parse(self, message: WireMessage, path: str) -> Message:
        if message.role == "developer":
            note_translation(self.notices, "developer role")  # only OpenAI knows it
        match message.role:
            case "system" | "developer" | "user":
                return Message(_ROLES[message.role], self._content(message, ToolCall, path), path)
            case "tool" | "function":
                return Message(Role.USER, self._results(message, path), path)
            case "assistant":
                refusal = [Text(message.refusal)] if message.refusal else []
                content = self._content(message, ToolResult, path)
                calls = self._calls(message, path)
                return Message(
                    Role.ASSISTANT, (*_reasoning(message), *content, *refusal, *calls), path
                )
        raise ClientError(f"unknown role {message.role[:40]!r}", path=f"{path}.role")

    def call(self, call_id: str, function: WireFunction, path: str) -> ToolCall:
        """Parse an earlier call of a function."""
        name = require(function.name, f"{path}.name")
        text = _arguments(function.arguments)
        if text.startswith(_UNPARSED) and isinstance(function.arguments, str):
            if name in self._custom:  # the form in which some gateways send such a call to Cursor
                note_translation(self.notices, "custom tool call")
                text = wrap_input(function.arguments)
            else:
                detail = f"the arguments of {call_id}"
                self.notices[Notice(NoticeCode.HISTORY_SANITISED, detail)] = None
        return ToolCall(call_id, name, text)

    def custom_call(self, call_id: str, name: str | None, text: str | None, path: str) -> ToolCall:
        """Parse an earlier call of a custom tool."""
        note_translation(self.notices, "custom tool call")
        return ToolCall(call_id, require(name, f"{path}.name"), wrap_input(text or ""))

    def _content(self, message: WireMessage, forbidden: type[Part], path: str) -> tuple[Part, ...]:
        """Parse the content; parts of the type `forbidden` belong to the other role."""
        parts = tuple(parse_content(message.content, f"{path}.content", self.notices))
        if any(isinstance(part, forbidden) for part in parts):
            kind = "tool_use" if forbidden is ToolCall else "tool_result"
            raise ClientError(
                f"{kind} is not allowed in a {message.role} message", path=f"{path}.content"
            )
        return parts

    def _results(self, message: WireMessage, path: str) -> tuple[Part, ...]:
        call_id = message.name if message.tool_call_id is None else message.tool_call_id
        if call_id is None:
            blocks = self._content(message, ToolCall, path)
            if blocks and all(isinstance(part, ToolResult) for part in blocks):
                return blocks
        content = parse_result(message.content, f"{path}.content", self.notices)
        return (ToolResult(require(call_id, f"{path}.tool_call_id"), tuple(content)),)

    def _calls(self, message: WireMessage, path: str) -> Iterator[ToolCall]:
        for index, call in enumerate(message.tool_calls or ()):
            yield self._call(call, f"{path}.tool_calls.{index}")
        if message.function_call is not None:
            # A result of this legacy form names the function instead of the call.
            name = require(message.function_call.name, f"{path}.function_call.name")
            yield self.call(name, message.function_call, f"{path}.function_call")

    def _call(self, call: WireCall, path: str) -> ToolCall:
        call_id = require(call.id, f"{path}.id")
        if call.custom is not None:
            custom = call.custom
            return self.custom_call(call_id, custom.name, custom.input, f"{path}.custom")
        return self.call(call_id, require(call.function, f"{path}.function"), f"{path}.function")


def _with_mark(parts: tuple[Part, ...], mark: CacheMark) -> tuple[Part, ...]:
    """Mark the end of a message for the cache."""
    if not parts or isinstance(parts[-1], Reasoning | RedactedReasoning):
        return parts
    return (*parts[:-1], replace(parts[-1], cache=mark))


def _reasoning(message: WireMessage) -> Iterator[Part]:
    """Parse earlier reasoning, preferably from `reasoning_details`, which keep signatures."""
    details = [d for d in message.reasoning_details or () if d.is_anthropic()]
    if any(detail.signature or detail.data for detail in details):
        for detail in details:
            if detail.data:
                yield RedactedReasoning(detail.data)
            else:
                yield Reasoning(detail.text or "", detail.signature)
    elif reasoning := message.reasoning_content or message.reasoning:
        yield Reasoning(reasoning)


def _arguments(arguments: str | dict[str, Raw] | None) -> bytes:
    """Arguments of an earlier call as JSON; text that is not an object is wrapped into one.

    Every upstream would reject other JSON, for the rest of the conversation.
    """
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
