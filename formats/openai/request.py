"""Chat Completions requests → conversation.

Clients mix shapes: Cursor sends Responses' `input`, Anthropic's blocks and tools of every API to
the one endpoint. All of them mean the same, so all are read, and each is named in a notice: then
an upstream of this dialect gets the request made anew. Unknown fields never fail a request.
"""

import msgspec
from msgspec import Raw

from formats.codec import ABSENT, given
from formats.complexity import Complexity, Fields, bounded, check_fields
from formats.conversation import (
    Conversation,
    Message,
    ReasoningMode,
    Role,
    Sampling,
    Text,
)
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.openai.fields import chat_fields, is_responses
from formats.openai.items import parse_input
from formats.openai.messages import MessageParser
from formats.openai.parts import parse_content
from formats.openai.tools import parse_functions, parse_tool_choice, parse_tools
from formats.openai.wire import Content, WireMessage, WireRequest
from formats.request import parse_json, require_object

_requests = msgspec.json.Decoder(WireRequest)
_messages = msgspec.json.Decoder(list[WireMessage])
_contents = msgspec.json.Decoder(Content)

# Decoded apart: they are nearly all of a request's bytes.
_LARGE = frozenset({"messages", "tools", "functions"})
_KNOWN = frozenset({*WireRequest.__struct_fields__, *_LARGE})
_CHECKED_APART = frozenset({"tools"})
_NULL = Raw(b"null")


@bounded
def parse(body: bytes, fields: Fields, most: Complexity) -> Conversation:
    """The conversation that a request asks to go on with; raises ClientError."""
    check_fields(body, fields, most, but=_CHECKED_APART)
    notices: dict[Notice, None] = {}
    source = chat_fields(fields, notices)
    small = {name: value for name, value in source.items() if name not in _LARGE}
    wire = parse_json(_requests, msgspec.json.encode(small))
    if wire.n is not None and wire.n > 1:
        raise ClientError("must be 1: an answer has one choice", path="n")
    for name in sorted(source.keys() - _KNOWN):
        notices[Notice(NoticeCode.FIELD_DROPPED, name)] = None
    functions = parse_functions(source.get("functions", _NULL))
    offered = parse_tools(bytes(source.get("tools", _NULL)), most)
    notices |= dict.fromkeys(offered.notices)
    all_tools = (*functions, *offered.tools) if functions else offered.tools
    tool_choice, tools = parse_tool_choice(wire, all_tools, notices)
    parser = MessageParser(notices, {tool.name for tool in tools if tool.is_custom})
    system, messages = _parse_messages(fields, parser)
    format_ = wire.response_format.json_schema if wire.response_format else None
    schema = given(format_.schema) if format_ else None
    if wire.response_format and wire.response_format.type == "json_object":
        notices[Notice(NoticeCode.FIELD_DROPPED, "response_format")] = None
    options = wire.stream_options
    return Conversation(
        model=wire.model,
        messages=tuple(messages),
        system=tuple(system),
        tools=tools,
        server_tools=offered.server_tools,
        tool_choice=tool_choice,
        sampling=Sampling(
            max_tokens=wire.max_completion_tokens or wire.max_tokens,
            temperature=wire.temperature,
            top_p=wire.top_p,
            top_k=wire.top_k,
            stop=(wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ()),
            user=wire.user,
        ),
        reasoning=_parse_reasoning(wire),
        output_schema=schema and require_object(schema, path="response_format.json_schema.schema"),
        stream=bool(wire.stream),
        include_usage=bool(options and options.include_usage),
        dialect="openai",
        source=source,
        body=body,
        notices=tuple(notices),
    )


def _parse_messages(
    fields: dict[str, Raw], parser: MessageParser
) -> tuple[list[Text], list[Message]]:
    """The system prompt, and the messages behind it."""
    system: list[Text] = []
    for name in ("instructions", "system"):  # Responses' field, and Anthropic's
        content = parse_json(_contents, fields.get(name, _NULL), path=name)
        parts = parse_content(content, name, parser.notices)
        system += [part for part in parts if isinstance(part, Text)]
    if is_responses(fields):
        messages = parse_input(fields["input"], parser)
    else:
        messages = _parse_chat(fields.get("messages", ABSENT), parser)
    if not messages:
        raise ClientError("at least one message is required", path="messages")
    leading = 0
    while leading < len(messages) and messages[leading].role is Role.SYSTEM:
        leading += 1
    for message in messages[:leading]:
        system += [part for part in message.parts if isinstance(part, Text)]
    return system, messages[leading:]


def _parse_chat(messages: Raw, parser: MessageParser) -> list[Message]:
    if given(messages) is None:
        raise ClientError("is required", path="messages")
    found = parse_json(_messages, messages, path="messages")
    return [parser.parse(message, f"messages.{index}") for index, message in enumerate(found)]


def _parse_reasoning(wire: WireRequest) -> ReasoningMode:
    if wire.reasoning is not None:
        effort = wire.reasoning.effort or wire.reasoning_effort
        return ReasoningMode(wire.reasoning.enabled, wire.reasoning.max_tokens, effort)
    match wire.thinking:
        case {"type": "disabled"}:
            return ReasoningMode(enabled=False)
        case {"type": str(), "budget_tokens": int(budget)}:
            return ReasoningMode(True, budget, wire.reasoning_effort)
        case {"type": str()}:
            return ReasoningMode(True, effort=wire.reasoning_effort)
    return ReasoningMode(effort=wire.reasoning_effort)
