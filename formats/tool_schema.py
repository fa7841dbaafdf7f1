"""Repairs the schemas of tools without arguments, which upstreams reject.

    {"type":"object"}   {}   {"type":null}   {"properties":null}   {"anyOf":[…]}

MCP servers and frameworks write them. OpenAI-like upstreams require `"type":"object"` and
`properties`, Anthropic only the type, and they reject the whole request because of one tool. A
repair adds what is missing and leaves every other byte; a schema with another type is the client's
error and stays as it is.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from formats.conversation import Tool
from formats.events import Notice, NoticeCode
from formats.json_codec import ABSENT, encode, value_or_none
from formats.json_splice import replace_values

_NAMED = 200
"""Characters of the tools' names in a notice."""

_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])
_type = msgspec.json.Decoder(str | list[str | None] | None)


def with_properties(tool: Tool) -> bytes:
    """Return the tool's schema as OpenAI-like upstreams accept it."""
    fields, changes = _with_type(tool.schema)
    if value_or_none(fields.get("properties", ABSENT)) is None and "$ref" not in fields:
        changes["properties"] = {}
        if tool.strict and "additionalProperties" not in fields:
            changes["additionalProperties"] = False  # required if strict
    return _changed(tool.schema, fields, changes)


def with_type(tool: Tool) -> bytes:
    """Return the tool's schema as Anthropic accepts it."""
    fields, changes = _with_type(tool.schema)
    if "properties" in fields and value_or_none(fields["properties"]) is None:
        changes["properties"] = {}
    return _changed(tool.schema, fields, changes)


def repair_notices(tools: tuple[Tool, ...], repair: Callable[[Tool], bytes]) -> tuple[Notice, ...]:
    """Return a notice with the names of the tools whose schemas `repair` changes; empty if none."""
    names = [tool.name for tool in tools if repair(tool) != tool.schema]
    return (Notice(NoticeCode.SCHEMA_REPAIRED, ", ".join(names)[:_NAMED]),) if names else ()


def repair_in_place(text: Raw, path: tuple[str, ...], repair: Callable[[Tool], bytes]) -> Raw:
    """Repair the schemas in the JSON text of `tools`; a schema is at this path of its tool."""
    return Raw(b"[%b]" % b",".join([_repaired(tool, path, repair) for tool in _array.decode(text)]))


def _repaired(text: bytes, path: tuple[str, ...], repair: Callable[[Tool], bytes]) -> bytes:
    fields = _object.decode(text)
    name, *rest = path
    value = value_or_none(fields.get(name, ABSENT))
    if value is None or not value.startswith(b"{"):
        return bytes(text)
    if rest:
        changed = _repaired(value, tuple(rest), repair)
    else:
        changed = repair(Tool("", None, value, bytes(fields.get("strict", b"")) == b"true"))
    return _changed(text, fields, {name: Raw(changed)} if changed != value else {})


def _with_type(schema: bytes) -> tuple[dict[str, Raw], dict[str, object]]:
    """Return the members of a schema, and the change that gives it the type of an object."""
    fields = _object.decode(schema)
    try:
        kind = _type.decode(fields.get("type", b"null"))
    except msgspec.DecodeError:
        return fields, {}
    is_missing = kind is None or (isinstance(kind, list) and "object" in kind)
    return fields, {"type": "object"} if is_missing else {}


def _changed(text: bytes, fields: dict[str, Raw], changes: dict[str, object]) -> bytes:
    if not changes:
        return bytes(text)
    return replace_values(bytes(text), fields, changes) or encode({**fields, **changes})
