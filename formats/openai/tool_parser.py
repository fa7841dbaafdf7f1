"""Parses the tools of a request and `tool_choice`, in the shapes of every API.

    {"type":"function","function":{"name":…,"parameters":{…}}}   Chat Completions
    {"type":"function","name":…,"parameters":{…}}                Responses
    {"name":…,"input_schema":{…}}                                Anthropic
    {"type":"custom","custom":{…}}, {"type":"custom","name":…}   custom tools of both OpenAI APIs

A tool in none of these shapes is a server tool, which only its vendor can run.
"""

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from formats.complexity import Complexity, check_value
from formats.conversation import ServerTool, Tool, ToolChoice
from formats.errors import ClientError
from formats.events import Notice
from formats.json_codec import value_or_none
from formats.openai.content_parser import note_translation, parse_mark
from formats.openai.custom_tools import substitute
from formats.openai.request_wire import (
    WireCustom,
    WireFunction,
    WireGrammar,
    WireNamed,
    WireRequest,
    WireTool,
    WireToolChoice,
)
from formats.request_errors import parse_json, require, require_object
from formats.tool_cache import ParsedTools, cached_by_text

_functions = msgspec.json.Decoder(list[WireFunction] | None)
_tools = msgspec.json.Decoder(list[WireTool] | None)
_grammars = msgspec.json.Decoder(WireGrammar)
_CHOICES = {"auto": "auto", "required": "any", "any": "any", "none": "none"}
_FUNCTIONS = frozenset({None, "function"})
_NO_ARGUMENTS = b'{"type":"object","properties":{}}'


def parse_functions(text: Raw) -> list[Tool]:
    """Parse `functions`, the older form of `tools`; raises ClientError."""
    functions = parse_json(_functions, text, path="functions") or ()
    return [
        _tool(function, value_or_none(function.parameters), f"functions.{index}.parameters")
        for index, function in enumerate(functions)
    ]


@cached_by_text
def parse_tools(text: bytes, max_complexity: Complexity) -> ParsedTools:
    """Parse `tools` into tools of the client and server tools; raises ClientError."""
    check_value(text, max_complexity)
    tools: list[Tool] = []
    server_tools: list[ServerTool] = []
    notices: dict[Notice, None] = {}
    for index, wire in enumerate(parse_json(_tools, text, path="tools") or ()):
        tool = _parse_tool(wire, f"tools.{index}", notices)
        if isinstance(tool, Tool):
            mark = wire.cache_control or (wire.function and wire.function.cache_control)
            tools.append(replace(tool, cache=parse_mark(mark, notices)) if mark else tool)
        else:
            server_tools.append(tool)
    return ParsedTools(tuple(tools), tuple(server_tools), tuple(notices))


def _parse_tool(tool: WireTool, path: str, notices: dict[Notice, None]) -> Tool | ServerTool:
    if tool.function is not None:
        place = f"{path}.function.parameters"
        return _tool(tool.function, value_or_none(tool.function.parameters), place)
    schema, parameters = value_or_none(tool.input_schema), value_or_none(tool.parameters)
    if tool.custom is not None:
        note_translation(notices, "custom tool")
        return _custom(tool.custom, f"{path}.custom")
    if schema:
        note_translation(notices, "input_schema of a tool")
        return _tool(tool, schema, f"{path}.input_schema")
    if tool.type in _FUNCTIONS or (parameters and tool.name):  # Codex's `tool_search` has no name
        note_translation(notices, "function of a tool")
        return _tool(tool, parameters, f"{path}.parameters")
    if tool.type == "custom":
        note_translation(notices, "custom tool")
        return _custom(WireCustom(tool.name, tool.description, tool.format), path)
    return ServerTool(tool.type or "", tool.name or tool.type or "")


def _tool(function: WireFunction, schema: bytes | None, path: str) -> Tool:
    name = _name(function.name, path.rpartition(".")[0])
    schema = require_object(schema or _NO_ARGUMENTS, path=path)
    return Tool(name, function.description, schema, function.strict)


def _custom(custom: WireCustom, path: str) -> Tool:
    name = _name(custom.name, path)
    grammar = WireGrammar()
    if text := value_or_none(custom.format):
        grammar = parse_json(_grammars, Raw(text), path=f"{path}.format")
    grammar = grammar.grammar or grammar
    return substitute(name, custom.description, grammar.syntax, grammar.definition)


def _name(name: str | None, path: str) -> str:
    name = require(name, f"{path}.name")
    if not name:
        raise ClientError("must not be empty", path=f"{path}.name")
    return name


def parse_tool_choice(
    wire: WireRequest, tools: tuple[Tool, ...], notices: dict[Notice, None]
) -> tuple[ToolChoice, tuple[Tool, ...]]:
    """Parse the choice; returns it with the tools it allows. Raises ClientError."""
    choice = wire.tool_choice if wire.tool_choice is not None else wire.function_call
    parallel = wire.parallel_tool_calls is not False
    if choice is None:
        return ToolChoice(parallel=parallel), tools
    if isinstance(choice, str):
        if choice == "any":
            note_translation(notices, "tool_choice")
        return _mode(choice, parallel), tools
    if isinstance(choice, WireToolChoice):
        if choice.type != "function" or choice.function is None:
            note_translation(notices, "tool_choice")
        parallel = parallel and not choice.disable_parallel_tool_use
        if choice.type == "allowed_tools":
            allowed = choice.allowed_tools or choice
            names = {_chosen_name(tool) for tool in allowed.tools or ()}
            allowed_tools = tuple(tool for tool in tools if tool.name in names)
            return _mode(allowed.mode or "auto", parallel), allowed_tools
    name = _chosen_name(choice)
    if name is not None:
        return ToolChoice("tool", name, parallel), tools
    if choice.type in ("tool", "function", "custom", None):
        raise ClientError("is required", path="tool_choice.name")
    return _mode(choice.type, parallel), tools


def _chosen_name(choice: WireNamed) -> str | None:
    inner = choice.function or choice.custom
    return inner.name if inner else choice.name


def _mode(mode: str, parallel: bool) -> ToolChoice:
    if mode not in _CHOICES:
        raise ClientError(f"unknown choice {mode[:40]!r}", path="tool_choice")
    return ToolChoice(_CHOICES[mode], parallel=parallel)  # type: ignore[arg-type]
