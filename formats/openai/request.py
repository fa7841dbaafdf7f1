"""Chat Completions requests → conversation.

Clients mix shapes: legacy functions, flat tools, Anthropic's `input_schema`. All of them mean the
same, so all are read.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from formats.codec import given
from formats.conversation import (
    Conversation,
    ReasoningMode,
    Sampling,
    Text,
    Tool,
    ToolChoice,
)
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.openai.messages import parse_message
from formats.openai.wire import WireFunction, WireRequest, WireToolChoice
from formats.request import parse_json, require, require_object, require_schema, require_utf8

_fields = msgspec.json.Decoder(dict[str, Raw])
_requests = msgspec.json.Decoder(WireRequest)
_KNOWN = frozenset(WireRequest.__struct_fields__)
_CHOICES = {"auto": "auto", "required": "any", "any": "any", "none": "none"}


def parse(body: bytes) -> Conversation:
    """The conversation that a request asks to go on with; raises ClientError."""
    require_utf8(body)
    source = parse_json(_fields, body)
    wire = parse_json(_requests, body)
    if not wire.messages:
        raise ClientError("at least one message is required", path="messages")
    notices = {
        Notice(NoticeCode.FIELD_DROPPED, name): None for name in sorted(source.keys() - _KNOWN)
    }
    leading = 0
    while leading < len(wire.messages) and wire.messages[leading].role in ("system", "developer"):
        leading += 1
    parsed = [
        parse_message(message, f"messages.{index}", notices)
        for index, message in enumerate(wire.messages)
    ]
    system = [part for message in parsed[:leading] for part in message.parts]
    format_ = wire.response_format.json_schema if wire.response_format else None
    schema = given(format_.schema) if format_ else None
    if wire.response_format and wire.response_format.type == "json_object":
        notices[Notice(NoticeCode.FIELD_DROPPED, "response_format")] = None
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
        output_schema=schema and require_object(schema, path="response_format.json_schema.schema"),
        stream=bool(wire.stream),
        include_usage=bool(options and options.include_usage),
        dialect="openai",
        source=source,
        body=body,
        notices=tuple(notices),
    )


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
    name = require(function.name, f"{path}.name")
    if not name:
        raise ClientError("must not be empty", path=f"{path}.name")
    schema = require_schema(schema or b"{}", path=f"{path}.parameters")
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
