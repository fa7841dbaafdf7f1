"""Parses Chat Completions requests into conversations.

Clients mix the shapes of several APIs: Cursor sends `input` of Responses, Anthropic's blocks and
tools of every API to this endpoint. All are accepted, and each gives a notice, so that the request
is rendered again for an upstream of this dialect. Unknown fields never fail a request.
"""

from contextlib import suppress

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from formats.complexity import (
    DEFAULT_COMPLEXITY,
    Complexity,
    Fields,
    check_fields,
    check_nodes,
    check_value,
    with_complexity_check,
)
from formats.conversation import (
    Conversation,
    Message,
    ReasoningMode,
    Role,
    Sampling,
    ServerTool,
    Text,
)
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.json_codec import ABSENT, value_or_none
from formats.model_fields import check_case
from formats.openai.content_parser import parse_content
from formats.openai.field_aliases import chat_fields, is_responses
from formats.openai.message_parser import MessageParser
from formats.openai.passthrough_request import SEARCH_FIELD
from formats.openai.request_wire import Content, WireMessage, WireRequest
from formats.openai.responses_input import all_tools, parse_input
from formats.openai.tool_parser import parse_functions, parse_tool_choice, parse_tools
from formats.request_errors import parse_json, require_object
from formats.turn_cache import RequestSettings, TurnCache

_requests = msgspec.json.Decoder(WireRequest)
_messages = msgspec.json.Decoder(list[WireMessage])
_contents = msgspec.json.Decoder(Content)

# Decoded separately: they are nearly all of a request's bytes.
_LARGE = frozenset({"messages", "tools", "functions"})
_KNOWN = frozenset({*WireRequest.__struct_fields__, *_LARGE})
_CHECKED_SEPARATELY = frozenset({"tools"})
_NULL = Raw(b"null")
_JSON_DROPPED = Notice(NoticeCode.FIELD_DROPPED, "response_format")


_turns = TurnCache()


def parse(body: bytes, max_complexity: Complexity = DEFAULT_COMPLEXITY) -> Conversation:
    """Parse a request body; raises ClientError."""
    turn = _turns.lookup(body, max_complexity)
    if turn is not None and (messages := value_or_none(turn.fields["messages"])):
        # On any error the whole request is parsed, which gives the right message.
        with suppress(ClientError, UnicodeDecodeError, msgspec.DecodeError):
            check_nodes(body, max_complexity)
            check_value(messages, max_complexity)
            return _conversation(body, turn.fields, chat_fields(turn.fields, {}), turn.settings)
    return _parse_whole(body, max_complexity)


@with_complexity_check
def _parse_whole(body: bytes, fields: Fields, max_complexity: Complexity) -> Conversation:
    check_fields(body, fields, max_complexity, except_fields=_CHECKED_SEPARATELY)
    check_case(fields)
    notices: dict[Notice, None] = {}
    source = chat_fields(fields, notices)
    small = {name: value for name, value in source.items() if name not in _LARGE}
    wire = parse_json(_requests, msgspec.json.encode(small))
    if wire.n is not None and wire.n > 1:
        raise ClientError("must be 1: answers have one choice", path="n")
    for name in sorted(source.keys() - _KNOWN):
        notices[Notice(NoticeCode.FIELD_DROPPED, name)] = None
    functions = parse_functions(source.get("functions", _NULL))
    tools_text = source.get("tools", _NULL)
    if is_responses(fields):
        tools_text = Raw(all_tools(tools_text, fields["input"]))
    parsed_tools = parse_tools(bytes(tools_text), max_complexity)
    notices |= dict.fromkeys(parsed_tools.notices)
    declared = (*functions, *parsed_tools.tools) if functions else parsed_tools.tools
    tool_choice, tools = parse_tool_choice(wire, declared, notices)
    server_tools = parsed_tools.server_tools
    if value_or_none(source.get(SEARCH_FIELD, ABSENT)):
        server_tools += (ServerTool(SEARCH_FIELD, "web_search"),)
    format_ = wire.response_format.json_schema if wire.response_format else None
    schema = value_or_none(format_.schema) if format_ else None
    options = wire.stream_options
    without_messages = Conversation(
        model=wire.model,
        messages=(),
        tools=tools,
        server_tools=server_tools,
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
        output_schema=schema,
        stream=bool(wire.stream),
        include_usage=bool(options and options.include_usage),
        dialect="openai",
        notices=tuple(notices),
    )
    is_json = wire.response_format is not None and wire.response_format.type == "json_object"
    settings = RequestSettings(without_messages, (_JSON_DROPPED,) if is_json else ())
    conversation = _conversation(body, fields, source, settings)
    if schema:
        require_object(schema, path="response_format.json_schema.schema")
    if not is_responses(fields):  # the same fields with `messages` mean something else
        _turns.store(body, fields, max_complexity, settings)
    return conversation


def _conversation(
    body: bytes, fields: Fields, source: Fields, settings: RequestSettings
) -> Conversation:
    without_messages = settings.conversation
    notices = dict.fromkeys(without_messages.notices)
    custom_tools = {tool.name for tool in without_messages.tools if tool.is_custom}
    parser = MessageParser(notices, custom_tools)
    system, messages = _parse_messages(fields, parser)
    return replace(
        without_messages,
        messages=tuple(messages),
        system=tuple(system),
        source=source,
        body=body,
        notices=tuple(notices | dict.fromkeys(settings.later_notices)),
    )


def _parse_messages(
    fields: dict[str, Raw], parser: MessageParser
) -> tuple[list[Text], list[Message]]:
    """Parse the system prompt and the messages after it."""
    system: list[Text] = []
    for name in ("instructions", "system"):  # fields of Responses and of Anthropic
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
    if value_or_none(messages) is None:
        raise ClientError("is required", path="messages")
    wire = parse_json(_messages, messages, path="messages")
    return [parser.parse(message, f"messages.{index}") for index, message in enumerate(wire)]


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
