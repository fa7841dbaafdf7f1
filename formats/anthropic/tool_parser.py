"""The tools of an Anthropic Messages request."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from formats.anthropic.request_wire import PlainTool, WireTool
from formats.complexity import Complexity, check_value
from formats.conversation import ServerTool, Tool
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.json_codec import value_or_none
from formats.request_errors import parse_json, require_schema
from formats.tool_cache import ParsedTools, cached_by_text

_plain_tools = msgspec.json.Decoder(list[PlainTool] | None)
_tools = msgspec.json.Decoder(list[WireTool] | None)
_tool_fields = msgspec.json.Decoder(list[dict[str, Raw]] | None)

_KNOWN = frozenset(WireTool.__struct_fields__)
# Tools that only Anthropic can run; their types end in a date.
_SERVER_TOOLS = (
    "web_search_",
    "web_fetch_",
    "code_execution_",
    "tool_search_tool_",
    "mcp_",
    "advisor_",
)
# Stands in `tools` for tools that a search would load; only Anthropic's own API expands it.
_PLACEHOLDER = "DeferredToolPlaceholder"


@cached_by_text
def parse_tools(text: bytes, max_complexity: Complexity) -> ParsedTools:
    """The tools of a request, from their JSON text; raises ClientError."""
    check_value(text, max_complexity)
    found, unknown = _decode(text)
    own: list[Tool] = []
    server: list[ServerTool] = []
    for index, tool in enumerate(found):
        path = f"tools.{index}"
        schema, kind = value_or_none(tool.input_schema), tool.type or "custom"
        if kind.startswith(_SERVER_TOOLS) or (kind != "custom" and schema is None):
            server.append(ServerTool(kind, tool.name or kind))
        elif not tool.name:
            raise ClientError("is required", path=f"{path}.name")
        elif tool.name != _PLACEHOLDER:
            schema = require_schema(schema, path=f"{path}.input_schema")
            own.append(Tool(tool.name, tool.description, schema, tool.strict))
    notices = [Notice(NoticeCode.FIELD_DROPPED, f"tools[].{name}") for name in unknown]
    return ParsedTools(tuple(own), tuple(server), tuple(notices))


def _decode(text: bytes) -> tuple[Sequence[WireTool], list[str]]:
    """The tools, and the names of fields that are not known."""
    try:
        return _plain_tools.decode(text) or (), []
    except (msgspec.DecodeError, RecursionError):
        found = parse_json(_tools, text, path="tools") or ()
    fields = _tool_fields.decode(text) or ()
    return found, sorted({name for tool in fields for name in tool.keys() - _KNOWN})
