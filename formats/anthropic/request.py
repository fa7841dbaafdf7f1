"""Anthropic Messages requests → conversation.

Unknown fields never fail a request. They are named in `Conversation.notices` for an upstream of
another dialect, and stay in `Conversation.source` for one of this.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Raw

from formats.anthropic.blocks import BlockParser
from formats.anthropic.wire import PlainTool, WireRequest, WireTool, WireToolChoice
from formats.codec import ABSENT, given
from formats.conversation import (
    Conversation,
    Message,
    ReasoningMode,
    Role,
    Sampling,
    ServerTool,
    Tool,
    ToolChoice,
)
from formats.errors import ClientError
from formats.events import NoticeCode
from formats.request import parse_json, require, require_object, require_schema, require_utf8

_fields = msgspec.json.Decoder(dict[str, Raw])
_requests = msgspec.json.Decoder(WireRequest)
_messages = msgspec.json.Decoder(list[dict[str, Raw]])
_roles = msgspec.json.Decoder(str)
_plain_tools = msgspec.json.Decoder(list[PlainTool] | None)
_tools = msgspec.json.Decoder(list[WireTool] | None)
_tool_fields = msgspec.json.Decoder(list[dict[str, Raw]] | None)

# Decoded apart, each in one pass: they are nearly all of a request's bytes.
_LARGE = frozenset({"system", "messages", "tools"})
_KNOWN = frozenset({*WireRequest.__struct_fields__, *_LARGE, "thread"})
_KNOWN_OF_TOOL = frozenset(WireTool.__struct_fields__)
_KNOWN_OF_MESSAGE = frozenset({"role", "content"})
# Tools that only Anthropic can run; their types end in a date.
_SERVER_TOOLS = (
    "web_search_",
    "web_fetch_",
    "code_execution_",
    "tool_search_tool_",
    "mcp_",
    "advisor_",
)
_ROLES = {role.value: role for role in Role}
_NULL = Raw(b"null")
# Stands in `tools` for tools that a search would load; only Anthropic's own API expands it.
_PLACEHOLDER = "DeferredToolPlaceholder"


def parse(body: bytes) -> Conversation:
    """The conversation that a request asks to go on with; raises ClientError."""
    require_utf8(body)
    source = parse_json(_fields, body)
    if given(source.get("thread", ABSENT)):
        raise ClientError(
            "threads are not supported: send the whole conversation",
            path="thread",
            details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
        )
    small = {name: value for name, value in source.items() if name not in _LARGE}
    wire = parse_json(_requests, msgspec.json.encode(small))
    wire_tools, unknown = _decode_tools(source.get("tools", _NULL))
    tools, server_tools = _parse_tools(wire_tools)
    blocks = BlockParser({tool.name: tool for tool in tools})
    for name in [*sorted(source.keys() - _KNOWN), *(f"tools[].{name}" for name in unknown)]:
        blocks.drop(NoticeCode.FIELD_DROPPED, name)
    messages = tuple(_parse_messages(source.get("messages"), blocks))
    return Conversation(
        model=wire.model,
        messages=messages,
        system=tuple(blocks.texts(source.get("system", ABSENT), "system")),
        tools=tuple(tools),
        server_tools=tuple(server_tools),
        tool_choice=_parse_tool_choice(wire.tool_choice),
        sampling=Sampling(
            max_tokens=wire.max_tokens,
            temperature=wire.temperature,
            top_p=wire.top_p,
            top_k=wire.top_k,
            stop=tuple(wire.stop_sequences or ()),
            user=wire.metadata.user_id if wire.metadata else None,
        ),
        reasoning=_parse_reasoning(wire),
        output_schema=_output_schema(wire),
        stream=bool(wire.stream),
        dialect="anthropic",
        source=source,
        body=body,
        notices=tuple(blocks.notices),
    )


def _parse_messages(messages: Raw | None, blocks: BlockParser) -> Iterator[Message]:
    given_messages = parse_json(_messages, require(messages, "messages"), path="messages")
    if not given_messages:
        raise ClientError("at least one message is required", path="messages")
    for index, fields in enumerate(given_messages):
        path = f"messages.{index}"
        name = parse_json(_roles, require(fields.get("role"), f"{path}.role"), path=f"{path}.role")
        if name not in _ROLES:
            raise ClientError(
                f"must be 'user', 'assistant' or 'system', not {name[:40]!r}", path=f"{path}.role"
            )
        for unknown in fields.keys() - _KNOWN_OF_MESSAGE:
            blocks.drop(NoticeCode.FIELD_DROPPED, f"messages[].{unknown}")
        content = fields.get("content", ABSENT)
        parts = blocks.parts(content, _ROLES[name], f"{path}.content")
        yield Message(_ROLES[name], tuple(parts), path)


def _decode_tools(tools: Raw) -> tuple[Sequence[WireTool], list[str]]:
    """The tools, and the names of fields that another dialect has no place for."""
    try:
        return _plain_tools.decode(tools) or (), []
    except (msgspec.DecodeError, RecursionError):
        found = parse_json(_tools, tools, path="tools") or ()
    fields = _tool_fields.decode(tools) or ()
    return found, sorted({name for tool in fields for name in tool.keys() - _KNOWN_OF_TOOL})


def _parse_tools(tools: Iterable[WireTool]) -> tuple[list[Tool], list[ServerTool]]:
    own: list[Tool] = []
    server: list[ServerTool] = []
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        schema, kind = given(tool.input_schema), tool.type or "custom"
        if kind.startswith(_SERVER_TOOLS) or (kind != "custom" and schema is None):
            server.append(ServerTool(kind, tool.name or kind))
        elif not tool.name:
            raise ClientError("is required", path=f"{path}.name")
        elif tool.name != _PLACEHOLDER:
            schema = require_schema(schema, path=f"{path}.input_schema")
            own.append(Tool(tool.name, tool.description, schema, tool.strict))
    return own, server


def _parse_tool_choice(choice: WireToolChoice | None) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    parallel = not choice.disable_parallel_tool_use
    match choice.type:
        case "auto" | "any" | "none":
            return ToolChoice(choice.type, parallel=parallel)
        case "tool":
            if choice.name is None:
                raise ClientError("is required", path="tool_choice.name")
            return ToolChoice("tool", choice.name, parallel)
    raise ClientError(f"unknown type {choice.type[:40]!r}", path="tool_choice.type")


def _parse_reasoning(wire: WireRequest) -> ReasoningMode:
    effort = wire.output_config.effort if wire.output_config else None
    if wire.thinking is None:
        return ReasoningMode(effort=effort)
    return ReasoningMode(wire.thinking.type != "disabled", wire.thinking.budget_tokens, effort)


def _output_schema(wire: WireRequest) -> bytes | None:
    asked = wire.output_config.format if wire.output_config else None
    schema = given(asked.schema) if asked else None
    return require_object(schema, path="output_config.format.schema") if schema else None
