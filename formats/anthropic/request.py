"""Anthropic Messages requests → conversation.

Unknown fields never fail a request. They are named in `Conversation.unsupported` for an upstream of
another dialect, and stay in `Conversation.source` for one of this.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Raw

from formats.anthropic.wire import (
    OutputConfig,
    WireBlock,
    WireMessage,
    WireRequest,
    WireTool,
    WireToolChoice,
)
from formats.codec import ABSENT, given
from formats.conversation import (
    Conversation,
    Document,
    Image,
    Message,
    Part,
    Reasoning,
    ReasoningMode,
    RedactedReasoning,
    Role,
    Sampling,
    ServerTool,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from formats.errors import ClientError
from formats.request import parse_json, require_object

_T = TypeVar("_T")

_fields = msgspec.json.Decoder(dict[str, Raw])
_requests = msgspec.json.Decoder(WireRequest)
_contents = msgspec.json.Decoder(str | list[WireBlock] | None)
_objects = msgspec.json.Decoder(list[dict[str, Raw]] | None)

_KNOWN = frozenset(WireRequest.__struct_fields__)
_KNOWN_OF_TOOL = frozenset(WireTool.__struct_fields__) - {"cache_control"}
_KNOWN_OF_BLOCK = frozenset(WireBlock.__struct_fields__) - {"cache_control"}
_KNOWN_OF_MESSAGE = frozenset(WireMessage.__struct_fields__)

# Stands in `tools` for tools that a search would load; only Anthropic's own API expands it.
_PLACEHOLDER = "DeferredToolPlaceholder"


def parse(body: bytes) -> Conversation:
    """The conversation that a request asks to go on with; raises ClientError."""
    source = parse_json(_fields, body)
    if given(source.get("thread", ABSENT)):
        raise ClientError(
            "threads are not supported: send the whole conversation",
            path="thread",
            details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
        )
    wire = parse_json(_requests, body)
    if not wire.messages:
        raise ClientError("at least one message is required", path="messages")
    tools, server_tools = _parse_tools(wire.tools or [])
    schemas = {tool.name: tool for tool in tools}
    unsupported = dict.fromkeys(_unsupported(source))
    messages = tuple(
        _parse_message(message, f"messages.{index}", schemas, unsupported)
        for index, message in enumerate(wire.messages)
    )
    return Conversation(
        model=wire.model,
        messages=messages,
        system=tuple(_texts(wire.system, "system")),
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
        output_schema=_output_schema(wire.output_config),
        stream=bool(wire.stream),
        dialect="anthropic",
        source=source,
        unsupported=tuple(unsupported),
    )


def _parse_message(
    message: WireMessage, path: str, tools: dict[str, Tool], unsupported: dict[str, None]
) -> Message:
    try:
        role = Role(message.role)
    except ValueError:
        raise ClientError(
            f"must be 'user', 'assistant' or 'system', not {message.role[:40]!r}",
            path=f"{path}.role",
        ) from None
    if isinstance(message.content, str):
        parts: tuple[Part, ...] = (Text(message.content),) if message.content else ()
        return Message(role, parts, path)
    blocks: list[Part] = []
    for index, block in enumerate(message.content or ()):
        part = _parse_block(block, f"{path}.content.{index}", role, tools)
        if part is None:
            unsupported[f"{block.type} block"] = None
        elif part != Text(""):
            blocks.append(part)
    return Message(role, tuple(blocks), path)


def _parse_block(block: WireBlock, path: str, role: Role, tools: dict[str, Tool]) -> Part | None:
    match block.type:
        case "text":
            return Text(_require(block.text, f"{path}.text"))
        case "image":
            return _parse_image(block, path)
        case "document":
            return _parse_document(block, path)
        case "thinking":
            return Reasoning(block.thinking or "", block.signature or None)
        case "redacted_thinking":
            return RedactedReasoning(_require(block.data, f"{path}.data"))
        case "tool_use" if role is Role.ASSISTANT:
            return ToolCall(
                id=_require(block.id, f"{path}.id"),
                name=_require(block.name, f"{path}.name"),
                arguments=require_object(given(block.input) or b"{}", path=f"{path}.input"),
            )
        case "tool_result" if role is Role.USER:
            return ToolResult(
                call_id=_require(block.tool_use_id, f"{path}.tool_use_id"),
                content=tuple(_parse_result(block.content, f"{path}.content", tools)),
                is_error=bool(block.is_error),
            )
        case "tool_use" | "tool_result":
            raise ClientError(f"{block.type} is not allowed in a {role} message", path=path)
    return None


def _parse_result(
    content: Raw, path: str, tools: dict[str, Tool]
) -> Iterator[Text | Image | Document]:
    value = parse_json(_contents, given(content) or b"null", path=path)
    if value is None or isinstance(value, str):
        if value:
            yield Text(value)
        return
    for index, block in enumerate(value):
        place = f"{path}.{index}"
        match block.type:
            case "text":
                if block.text:
                    yield Text(block.text)
            case "image":
                yield _parse_image(block, place)
            case "document":
                yield _parse_document(block, place)
            case "tool_reference":
                yield Text(_reference(_require(block.tool_name, f"{place}.tool_name"), tools))
            case _:
                yield Text(f"[{block.type}: this content cannot be shown]")


def _reference(name: str, tools: dict[str, Tool]) -> str:
    """A tool that a search found, spelled out: only Anthropic's own API expands the reference."""
    tool = tools.get(name)
    if tool is None:
        return f"The tool {name} is available."
    described = f": {tool.description}" if tool.description else "."
    return f"The tool {name} is available{described}\nIts arguments: {tool.schema.decode()}"


def _parse_image(block: WireBlock, path: str) -> Image:
    source = _require(block.source, f"{path}.source")
    if source.type == "url":
        return Image(url=_require(source.url, f"{path}.source.url"))
    if source.type == "base64":
        data = _require(source.data, f"{path}.source.data")
        return Image(media_type=source.media_type or "image/png", data=data)
    raise ClientError("must have a source of type 'base64' or 'url'", path=f"{path}.source.type")


def _parse_document(block: WireBlock, path: str) -> Document:
    source = _require(block.source, f"{path}.source")
    match source.type:
        case "text":
            return Document(text=source.data or "", title=block.title)
        case "url":
            return Document(url=source.url, title=block.title)
        case "base64":
            data = _require(source.data, f"{path}.source.data")
            media_type = source.media_type or "application/pdf"
            return Document(media_type=media_type, data=data, title=block.title)
        case "content":
            blocks = source.content if isinstance(source.content, list) else []
            texts = [str(item.get("text", "")) for item in blocks if isinstance(item, dict)]
            text = source.content if isinstance(source.content, str) else "\n".join(texts)
            return Document(text=text, title=block.title)
    return Document(title=block.title)


def _parse_tools(tools: Iterable[WireTool]) -> tuple[list[Tool], list[ServerTool]]:
    own: list[Tool] = []
    server: list[ServerTool] = []
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        schema = given(tool.input_schema)
        if tool.type not in (None, "custom") and schema is None:
            server.append(ServerTool(tool.type or "", tool.name or tool.type or ""))
            continue
        name = _require(tool.name, f"{path}.name")
        if not name:
            raise ClientError("must not be empty", path=f"{path}.name")
        schema = require_object(schema, path=f"{path}.input_schema")
        if name != _PLACEHOLDER:
            own.append(Tool(name, tool.description, schema, tool.strict))
    return own, server


def _parse_tool_choice(choice: WireToolChoice | None) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    parallel = not choice.disable_parallel_tool_use
    match choice.type:
        case "auto" | "any" | "none":
            return ToolChoice(choice.type, parallel=parallel)
        case "tool":
            name = _require(choice.name, "tool_choice.name")
            return ToolChoice("tool", name, parallel)
    raise ClientError(f"unknown type {choice.type[:40]!r}", path="tool_choice.type")


def _parse_reasoning(wire: WireRequest) -> ReasoningMode:
    effort = wire.output_config.effort if wire.output_config else None
    if wire.thinking is None:
        return ReasoningMode(effort=effort)
    return ReasoningMode(wire.thinking.type != "disabled", wire.thinking.budget_tokens, effort)


def _output_schema(config: OutputConfig | None) -> bytes | None:
    return given(config.format.schema) if config and config.format else None


def _texts(system: str | list[WireBlock] | None, path: str) -> Iterator[Text]:
    if isinstance(system, str):
        if system:
            yield Text(system)
        return
    for index, block in enumerate(system or ()):
        text = _require(block.text, f"{path}.{index}.text")
        if text:
            yield Text(text)


def _unsupported(source: dict[str, Raw]) -> Iterator[str]:
    """The names of fields that another dialect has no place for."""
    yield from sorted(source.keys() - _KNOWN)
    for field, known in (("tools", _KNOWN_OF_TOOL), ("messages", _KNOWN_OF_MESSAGE)):
        for item in _objects.decode(source.get(field, Raw(b"null"))) or ():
            yield from (f"{field}[].{name}" for name in item if name not in known)
            content = bytes(item.get("content", b"")) if field == "messages" else b""
            if content.startswith(b"["):
                for block in _objects.decode(content) or ():
                    yield from (
                        f"content[].{name}" for name in block if name not in _KNOWN_OF_BLOCK
                    )


def _require(value: _T | None, path: str) -> _T:
    if value is None:
        raise ClientError("is required", path=path)
    return value
