"""Parses the `input` of the Responses API into messages of a conversation.

    {"type":"reasoning",…} {"type":"message",…} {"type":"function_call",…} → one assistant message
    {"type":"function_call_output",…}                                      → one tool result

Consecutive items of the assistant were one answer, so they become one message. References to items
stored by OpenAI are rejected: without those items, the conversation would be a different one.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, Struct

from formats.conversation import Message, Part, Reasoning, Role, Text, ToolResult
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.openai.content_parser import parse_result
from formats.openai.message_parser import MessageParser
from formats.openai.request_wire import Content, WireFunction, WireMessage
from formats.request_errors import parse_json


class _Kind(Struct):
    type: str | None = None
    role: str | None = None


class _FunctionCall(Struct):
    call_id: str
    name: str
    arguments: str | dict[str, Raw] | None = None


class _CustomCall(Struct):
    call_id: str
    name: str
    input: str | None = None


class _Output(Struct):
    call_id: str
    output: Content = None


class _Thought(Struct):
    text: str = ""


class _Reasoning(Struct):
    summary: list[_Thought] | None = None
    content: list[_Thought] | None = None
    encrypted_content: str | None = None


class _AdditionalTools(Struct):
    tools: list[Raw] | None = None


_inputs = msgspec.json.Decoder(str | list[Raw])
_kinds = msgspec.json.Decoder(_Kind)
_messages = msgspec.json.Decoder(WireMessage)
_function_calls = msgspec.json.Decoder(_FunctionCall)
_custom_calls = msgspec.json.Decoder(_CustomCall)
_outputs = msgspec.json.Decoder(_Output)
_additional_tools = msgspec.json.Decoder(_AdditionalTools)
_tools = msgspec.json.Decoder(list[Raw] | None)
_reasonings = msgspec.json.Decoder(_Reasoning)


def parse_input(value: Raw, parser: MessageParser) -> list[Message]:
    """Parse `input` into messages; raises ClientError."""
    items = parse_json(_inputs, value, path="input")
    if isinstance(items, str):
        return [Message(Role.USER, (Text(items),), "input")] if items else []
    return [*_join_answers(_parse_items(items, parser))]


def all_tools(tools: Raw, value: Raw) -> bytes:
    """Return the JSON text of `tools` with those of `additional_tools` items; raises ClientError.

    Codex declares the tools of some models only there.
    """
    texts = dict.fromkeys(map(bytes, parse_json(_tools, tools, path="tools") or ()))
    items = parse_json(_inputs, value, path="input")
    for index, raw in enumerate(items if isinstance(items, list) else ()):
        path = f"input.{index}"
        if parse_json(_kinds, raw, path=path).type == "additional_tools":
            added = parse_json(_additional_tools, raw, path=path).tools
            texts |= dict.fromkeys(map(bytes, added or ()))
    return b"[%b]" % b",".join(texts)


def _parse_items(items: Iterable[Raw], parser: MessageParser) -> Iterator[Message]:
    for index, raw in enumerate(items):
        path = f"input.{index}"
        kind = parse_json(_kinds, raw, path=path)
        match kind.type:
            case None | "message":
                yield parser.parse(parse_json(_messages, raw, path=path), path)
            case "function_call":
                call = parse_json(_function_calls, raw, path=path)
                function = WireFunction(call.name, arguments=call.arguments)
                yield _assistant(parser.call(call.call_id, function, path), path)
            case "custom_tool_call":
                custom = parse_json(_custom_calls, raw, path=path)
                tool_call = parser.custom_call(custom.call_id, custom.name, custom.input, path)
                yield _assistant(tool_call, path)
            case "function_call_output" | "custom_tool_call_output":
                output = parse_json(_outputs, raw, path=path)
                content = parse_result(output.output, f"{path}.output", parser.notices)
                yield Message(Role.USER, (ToolResult(output.call_id, tuple(content)),), path)
            case "reasoning":
                yield from _parse_reasoning(parse_json(_reasonings, raw, path=path), path, parser)
            case "additional_tools":
                pass  # parsed with the other tools
            case "item_reference":
                raise ClientError(
                    "refers to a stored item, but Athena stores none: send the item itself",
                    path=path,
                )
            case other:
                notice = Notice(NoticeCode.CONTENT_UNSUPPORTED, f"{other[:40]} item")
                parser.notices[notice] = None


def _parse_reasoning(item: _Reasoning, path: str, parser: MessageParser) -> Iterator[Message]:
    thoughts = item.content or item.summary or ()
    if text := "\n\n".join(thought.text for thought in thoughts if thought.text):
        yield _assistant(Reasoning(text), path)
    elif item.encrypted_content:
        parser.notices[Notice(NoticeCode.REASONING_DROPPED, "encrypted by OpenAI")] = None


def _assistant(part: Part, path: str) -> Message:
    return Message(Role.ASSISTANT, (part,), path)


def _join_answers(messages: Iterable[Message]) -> Iterator[Message]:
    """Join consecutive assistant messages."""
    answer: Message | None = None
    for message in messages:
        if message.role is Role.ASSISTANT:
            parts = (*answer.parts, *message.parts) if answer else message.parts
            answer = Message(Role.ASSISTANT, parts, answer.path if answer else message.path)
            continue
        if answer:
            yield answer
            answer = None
        yield message
    if answer:
        yield answer
