"""Parses the tools of an Anthropic Messages request."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from formats.anthropic.request_wire import PlainTool, WireTool
from formats.complexity import Complexity, check_value
from formats.conversation import ServerTool, Tool
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.json_codec import value_or_none
from formats.request_errors import parse_json, require_object
from formats.tool_cache import ParsedTools, cached_by_text

_plain_tools = msgspec.json.Decoder(list[PlainTool] | None)
_tools = msgspec.json.Decoder(list[WireTool] | None)
_tool_fields = msgspec.json.Decoder(list[dict[str, Raw]] | None)

_KNOWN = frozenset(WireTool.__struct_fields__)
# Types of tools that only Anthropic can run; a date follows.
_SERVER_TOOLS = (
    "web_search_",
    "web_fetch_",
    "code_execution_",
    "tool_search_tool_",
    "mcp_",
    "advisor_",
)
# Placeholder for tools that a search would load; only Anthropic's API expands it.
_PLACEHOLDER = "DeferredToolPlaceholder"


@cached_by_text
def parse_tools(text: bytes, max_complexity: Complexity) -> ParsedTools:
    """Parse the JSON text of `tools`; raises ClientError."""
    check_value(text, max_complexity)
    wire, unknown = _decode(text)
    tools: list[Tool] = []
    server_tools: list[ServerTool] = []
    for index, tool in enumerate(wire):
        path = f"tools.{index}"
        schema, kind = value_or_none(tool.input_schema), tool.type or "custom"
        if kind.startswith(_SERVER_TOOLS) or (kind != "custom" and schema is None):
            server_tools.append(ServerTool(kind, tool.name or kind))
        elif not tool.name:
            raise ClientError("is required", path=f"{path}.name")
        elif tool.name != _PLACEHOLDER:
            schema = require_object(schema, path=f"{path}.input_schema")
            tools.append(Tool(tool.name, tool.description, schema, tool.strict))
    notices = [Notice(NoticeCode.FIELD_DROPPED, f"tools[].{name}") for name in unknown]
    return ParsedTools(tuple(tools), tuple(server_tools), tuple(notices))


def _decode(text: bytes) -> tuple[Sequence[WireTool], list[str]]:
    """Decode the tools, and list the names of unknown fields."""
    try:
        return _plain_tools.decode(text) or (), []
    except (msgspec.DecodeError, RecursionError):
        tools = parse_json(_tools, text, path="tools") or ()
    fields = _tool_fields.decode(text) or ()
    return tools, sorted({name for tool in fields for name in tool.keys() - _KNOWN})
