"""The tools of a request and the choice among them, in every spelling.

    {"type":"function","function":{"name":…,"parameters":{…}}}   Chat Completions
    {"type":"function","name":…,"parameters":{…}}                Responses
    {"name":…,"input_schema":{…}}                                Anthropic
    {"type":"custom","custom":{…}}, {"type":"custom","name":…}   custom tools of both of OpenAI's

What has no name that a model could call is a tool of the vendor's own server.
"""

import msgspec
from msgspec import Raw

from formats.complexity import Complexity, check_value
from formats.conversation import ServerTool, Tool, ToolChoice
from formats.errors import ClientError
from formats.events import Notice
from formats.json_codec import value_or_none
from formats.openai.content_parser import translated
from formats.openai.custom_tools import stand_in
from formats.openai.request_wire import (
    WireCustom,
    WireFunction,
    WireGrammar,
    WireNamed,
    WireRequest,
    WireTool,
    WireToolChoice,
)
from formats.request_errors import parse_json, require, require_schema
from formats.tool_cache import ParsedTools, cached_by_text

_functions = msgspec.json.Decoder(list[WireFunction] | None)
_tools = msgspec.json.Decoder(list[WireTool] | None)
_grammars = msgspec.json.Decoder(WireGrammar)
_CHOICES = {"auto": "auto", "required": "any", "any": "any", "none": "none"}
_FUNCTIONS = frozenset({None, "function"})


def parse_functions(text: Raw) -> list[Tool]:
    """What a model may call, in the spelling before tools; raises ClientError."""
    found = parse_json(_functions, text, path="functions") or ()
    return [
        _tool(function, value_or_none(function.parameters), f"functions.{index}.parameters")
        for index, function in enumerate(found)
    ]


@cached_by_text
def parse_tools(text: bytes, max_complexity: Complexity) -> ParsedTools:
    """What a model may call, and what only a vendor's server could run; raises ClientError."""
    check_value(text, max_complexity)
    own: list[Tool] = []
    server: list[ServerTool] = []
    notices: dict[Notice, None] = {}
    for index, tool in enumerate(parse_json(_tools, text, path="tools") or ()):
        found = _parse_tool(tool, f"tools.{index}", notices)
        if isinstance(found, Tool):
            own.append(found)
        else:
            server.append(found)
    return ParsedTools(tuple(own), tuple(server), tuple(notices))


def _parse_tool(tool: WireTool, path: str, notices: dict[Notice, None]) -> Tool | ServerTool:
    if tool.function is not None:
        place = f"{path}.function.parameters"
        return _tool(tool.function, value_or_none(tool.function.parameters), place)
    schema, parameters = value_or_none(tool.input_schema), value_or_none(tool.parameters)
    if tool.custom is not None:
        translated(notices, "custom tool")
        return _custom(tool.custom, f"{path}.custom")
    if schema:
        translated(notices, "input_schema of a tool")
        return _tool(tool, schema, f"{path}.input_schema")
    if parameters or tool.type in _FUNCTIONS:
        translated(notices, "function of a tool")
        return _tool(tool, parameters, f"{path}.parameters")
    if tool.type == "custom":
        translated(notices, "custom tool")
        return _custom(WireCustom(tool.name, tool.description, tool.format), path)
    return ServerTool(tool.type or "", tool.name or tool.type or "")


def _tool(function: WireFunction, schema: bytes | None, path: str) -> Tool:
    name = _name(function.name, path.rpartition(".")[0])
    schema = require_schema(schema or b"{}", path=path)
    return Tool(name, function.description, schema, function.strict)


def _custom(custom: WireCustom, path: str) -> Tool:
    name = _name(custom.name, path)
    grammar = WireGrammar()
    if text := value_or_none(custom.format):
        grammar = parse_json(_grammars, Raw(text), path=f"{path}.format")
    grammar = grammar.grammar or grammar
    return stand_in(name, custom.description, grammar.syntax, grammar.definition)


def _name(name: str | None, path: str) -> str:
    found = require(name, f"{path}.name")
    if not found:
        raise ClientError("must not be empty", path=f"{path}.name")
    return found


def parse_tool_choice(
    wire: WireRequest, tools: tuple[Tool, ...], notices: dict[Notice, None]
) -> tuple[ToolChoice, tuple[Tool, ...]]:
    """The choice, and the tools that it leaves to choose from; raises ClientError."""
    choice = wire.tool_choice if wire.tool_choice is not None else wire.function_call
    parallel = wire.parallel_tool_calls is not False
    if choice is None:
        return ToolChoice(parallel=parallel), tools
    if isinstance(choice, str):
        if choice == "any":
            translated(notices, "tool_choice")
        return _mode(choice, parallel), tools
    if isinstance(choice, WireToolChoice):
        if choice.type != "function" or choice.function is None:
            translated(notices, "tool_choice")
        parallel = parallel and not choice.disable_parallel_tool_use
        if choice.type == "allowed_tools":
            allowed = choice.allowed_tools or choice
            names = {_named(tool) for tool in allowed.tools or ()}
            left = tuple(tool for tool in tools if tool.name in names)
            return _mode(allowed.mode or "auto", parallel), left
    name = _named(choice)
    if name is not None:
        return ToolChoice("tool", name, parallel), tools
    if choice.type in ("tool", "function", "custom", None):
        raise ClientError("is required", path="tool_choice.name")
    return _mode(choice.type, parallel), tools


def _named(choice: WireNamed) -> str | None:
    inner = choice.function or choice.custom
    return inner.name if inner else choice.name


def _mode(mode: str, parallel: bool) -> ToolChoice:
    if mode not in _CHOICES:
        raise ClientError(f"unknown choice {mode[:40]!r}", path="tool_choice")
    return ToolChoice(_CHOICES[mode], parallel=parallel)  # type: ignore[arg-type]
