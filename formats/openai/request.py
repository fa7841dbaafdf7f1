"""Chat Completions requests → conversation.

Clients mix shapes: legacy functions, flat tools, Anthropic's `input_schema`. All of them mean the
same, so all are read.
"""

import json
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from formats.arguments import Arguments, Status
from formats.codec import ABSENT, given
from formats.conversation import (
    Conversation,
    Document,
    Image,
    Message,
    Part,
    Reasoning,
    ReasoningMode,
    Role,
    Sampling,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from formats.errors import ClientError
from formats.request import parse_json, require_object

_T = TypeVar("_T")


class WireUrl(Struct):
    url: str


class WireFile(Struct):
    file_data: str | None = None
    filename: str | None = None


class WirePart(Struct):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: WireUrl | str | None = None
    file: WireFile | None = None


class WireFunction(Struct):
    name: str | None = None
    description: str | None = None
    parameters: Raw = ABSENT
    strict: bool | None = None
    arguments: str | dict[str, Raw] | None = None


class WireCall(Struct):
    id: str | None = None
    function: WireFunction | None = None


class WireMessage(Struct):
    role: str
    content: str | list[WirePart] | None = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: WireFunction | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class WireTool(WireFunction):
    type: str | None = None
    function: WireFunction | None = None
    input_schema: Raw = ABSENT


class WireToolChoice(Struct):
    type: str | None = None
    name: str | None = None
    function: WireFunction | None = None


class StreamOptions(Struct):
    include_usage: bool | None = None


class JsonSchema(Struct):
    schema: Raw = ABSENT


class ResponseFormat(Struct):
    type: str
    json_schema: JsonSchema | None = None


class WireReasoning(Struct):
    enabled: bool | None = None
    effort: str | None = None
    max_tokens: int | None = None


class WireRequest(Struct):
    model: str
    messages: list[WireMessage]
    tools: list[WireTool] | None = None
    functions: list[WireFunction] | None = None
    tool_choice: str | WireToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: str | list[str] | None = None
    user: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    reasoning: WireReasoning | None = None


_fields = msgspec.json.Decoder(dict[str, Raw])
_requests = msgspec.json.Decoder(WireRequest)
_NO_ARGUMENTS = b'{"type":"object","properties":{}}'
_KNOWN = frozenset(WireRequest.__struct_fields__)
_ROLES = {"developer": Role.SYSTEM, "system": Role.SYSTEM, "user": Role.USER}
_CHOICES = {"auto": "auto", "required": "any", "any": "any", "none": "none"}


def parse(body: bytes) -> Conversation:
    """The conversation that a request asks to go on with; raises ClientError."""
    source = parse_json(_fields, body)
    wire = parse_json(_requests, body)
    if not wire.messages:
        raise ClientError("at least one message is required", path="messages")
    unsupported = dict.fromkeys(sorted(source.keys() - _KNOWN))
    leading = 0
    while leading < len(wire.messages) and wire.messages[leading].role in ("system", "developer"):
        leading += 1
    parsed = [
        _parse_message(message, f"messages.{index}", unsupported)
        for index, message in enumerate(wire.messages)
    ]
    system = [part for message in parsed[:leading] for part in message.parts]
    format_ = wire.response_format.json_schema if wire.response_format else None
    options = wire.stream_options
    return Conversation(
        model=wire.model,
        messages=tuple(parsed[leading:]),
        system=tuple(part for part in system if isinstance(part, Text)),
        tools=tuple(_parse_tools(wire)),
        tool_choice=_parse_tool_choice(wire),
        sampling=Sampling(
            max_tokens=wire.max_completion_tokens or wire.max_tokens,
            temperature=wire.temperature,
            top_p=wire.top_p,
            top_k=wire.top_k,
            stop=(wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ()),
            user=wire.user,
        ),
        reasoning=_parse_reasoning(wire),
        output_schema=given(format_.schema) if format_ else None,
        stream=bool(wire.stream),
        include_usage=bool(options and options.include_usage),
        dialect="openai",
        source=source,
        unsupported=tuple(unsupported),
    )


def _parse_message(message: WireMessage, path: str, unsupported: dict[str, None]) -> Message:
    parts = list(_parse_content(message.content, path, unsupported))
    match message.role:
        case "system" | "developer" | "user":
            return Message(_ROLES[message.role], tuple(parts), path)
        case "tool" | "function":
            call_id = message.tool_call_id or message.name
            content = tuple(part for part in parts if isinstance(part, Text | Image | Document))
            result = ToolResult(_require(call_id, f"{path}.tool_call_id"), content)
            return Message(Role.USER, (result,), path)
        case "assistant":
            reasoning = message.reasoning_content or message.reasoning
            if message.refusal:
                parts.append(Text(message.refusal))
            if reasoning:
                parts.insert(0, Reasoning(reasoning))
            parts += _parse_calls(message, path)
            return Message(Role.ASSISTANT, tuple(parts), path)
    raise ClientError(f"unknown role {message.role[:40]!r}", path=f"{path}.role")


def _parse_content(
    content: str | list[WirePart] | None, path: str, unsupported: dict[str, None]
) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    for index, part in enumerate(content or ()):
        place = f"{path}.content.{index}"
        match part.type:
            case "text" | "input_text" | "output_text":
                if text := _require(part.text, f"{place}.text"):
                    yield Text(text)
            case "refusal":
                yield Text(part.refusal or "")
            case "image_url" | "input_image":
                if part.image_url is None:
                    raise ClientError("is required", path=f"{place}.image_url")
                yield _image(part.image_url)
            case "file" if part.file and part.file.file_data:
                media_type, data = _data_url(part.file.file_data)
                yield Document(media_type=media_type, data=data, title=part.file.filename)
            case _:
                unsupported[f"{part.type} part"] = None


def _image(source: WireUrl | str) -> Image:
    url = source if isinstance(source, str) else source.url
    if not url.startswith("data:"):
        return Image(url=url)
    media_type, data = _data_url(url)
    return Image(media_type=media_type, data=data)


def _data_url(url: str) -> tuple[str, str]:
    head, _, data = url.partition(",")
    return head.removeprefix("data:").partition(";")[0] or "application/pdf", data


def _parse_calls(message: WireMessage, path: str) -> Iterator[ToolCall]:
    for index, call in enumerate(message.tool_calls or ()):
        place = f"{path}.tool_calls.{index}"
        function = _require(call.function, f"{place}.function")
        name = _require(function.name, f"{place}.function.name")
        yield ToolCall(_require(call.id, f"{place}.id"), name, _arguments(function.arguments))
    if message.function_call is not None:
        name = _require(message.function_call.name, f"{path}.function_call.name")
        # The legacy result names the function, not the call.
        yield ToolCall(name, name, _arguments(message.function_call.arguments))


def _arguments(arguments: str | dict[str, Raw] | None) -> bytes:
    """The arguments of an earlier call. What is not an object would be refused by every upstream,
    for the rest of the conversation, so it is wrapped into one."""
    if isinstance(arguments, dict):
        return msgspec.json.encode(arguments)
    text = (arguments or "").strip()
    scan = Arguments()
    forward, end = scan.read(text)
    if scan.status is Status.EMPTY:
        return b"{}"
    if scan.status is Status.COMPLETE and end == len(text):
        return forward.encode()
    return json.dumps({"unparsed_arguments": text}, ensure_ascii=False).encode()


def _parse_tools(wire: WireRequest) -> Iterator[Tool]:
    for index, function in enumerate(wire.functions or ()):
        yield _tool(function, given(function.parameters), f"functions.{index}")
    for index, tool in enumerate(wire.tools or ()):
        path = f"tools.{index}"
        if tool.function is not None:
            yield _tool(tool.function, given(tool.function.parameters), f"{path}.function")
        else:
            yield _tool(tool, given(tool.parameters) or given(tool.input_schema), path)


def _tool(function: WireFunction, schema: bytes | None, path: str) -> Tool:
    name = _require(function.name, f"{path}.name")
    if not name:
        raise ClientError("must not be empty", path=f"{path}.name")
    schema = require_object(schema or _NO_ARGUMENTS, path=f"{path}.parameters")
    return Tool(name, function.description, schema, function.strict)


def _parse_tool_choice(wire: WireRequest) -> ToolChoice:
    parallel = wire.parallel_tool_calls is not False
    choice = wire.tool_choice
    if choice is None:
        return ToolChoice(parallel=parallel)
    if isinstance(choice, WireToolChoice):
        name = choice.function.name if choice.function else choice.name
        if name is not None:
            return ToolChoice("tool", name, parallel)
        choice = choice.type or ""
    if choice not in _CHOICES:
        raise ClientError(f"unknown choice {choice[:40]!r}", path="tool_choice")
    return ToolChoice(_CHOICES[choice], parallel=parallel)  # type: ignore[arg-type]


def _parse_reasoning(wire: WireRequest) -> ReasoningMode:
    if wire.reasoning is not None:
        effort = wire.reasoning.effort or wire.reasoning_effort
        return ReasoningMode(wire.reasoning.enabled, wire.reasoning.max_tokens, effort)
    return ReasoningMode(effort=wire.reasoning_effort)


def _require(value: _T | None, path: str) -> _T:
    if value is None:
        raise ClientError("is required", path=path)
    return value
