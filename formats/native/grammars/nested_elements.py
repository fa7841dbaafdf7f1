"""Values as nested elements: objects, lists and words in elements that are named after their keys.

    <harbors><item>Moss</item><item>Horten</item></harbors>
    <boat><name>Ran</name><crew>2</crew></boat>

A list is an element for each item, with any name. The schema gives the types; without one, an
element with child elements is an object (a list, if all are called `item`), and any other is a
string. Text beside child elements is `$text`. Where the schema wants a string, or where elements
do not nest, the value is the text as it was written.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from formats.json_codec import encode_string
from formats.native.grammars.parameter_values import STRING, coerce
from formats.toolbox import schema_types

_COMBINERS = ("anyOf", "oneOf", "allOf")
_ITEM = "item"
_TEXT = "$text"
# Conversion takes a frame of the stack for each level.
_MAX_DEPTH = 64


@dataclass(slots=True)
class _Element:
    key: str
    start: int
    end: int = 0
    text: list[str] = field(default_factory=list)
    children: list["_Element"] = field(default_factory=list)


def may_nest(schema: Any) -> bool:
    """Return whether a value of this schema may have child elements."""
    types = schema_types(schema)
    return not types or not types.isdisjoint({"object", "array"})


def element_json(value: str, schema: Any, tags: re.Pattern[str]) -> str:
    """Convert the content of an element to JSON. `tags` has the groups `begin` and `end`: keys."""
    root = _parse(value, tags)
    if root is None:
        return json.dumps(value, ensure_ascii=False)
    return _convert(root, schema, value)


def _parse(value: str, tags: re.Pattern[str]) -> _Element | None:
    """Return the elements as a tree; None if they do not nest."""
    root = _Element("", 0, len(value))
    path = [root]
    pos = 0
    for tag in tags.finditer(value):
        path[-1].text.append(value[pos : tag.start()])
        pos = tag.end()
        if tag["begin"] is not None:
            element = _Element(tag["begin"], pos)
            path[-1].children.append(element)
            path.append(element)
            if len(path) > _MAX_DEPTH:
                return None
            continue
        element = path.pop()
        if not path or element.key != tag["end"]:
            return None
        element.end = tag.start()
    path[-1].text.append(value[pos:])
    return root if len(path) == 1 else None


def _convert(element: _Element, schema: Any, value: str) -> str:
    types = schema_types(schema)
    is_scalar = bool(types) and types.isdisjoint({"object", "array"})
    if is_scalar or not element.children:
        written = value[element.start : element.end]
        if not written.strip() and "string" not in types:
            for name, empty in (("object", "{}"), ("array", "[]")):
                if name in types:
                    return empty
        return coerce(written, types or STRING)
    if _is_list(element, types):
        return _list(element.children, _items(schema), value)
    return _object(element, schema, value)


def _is_list(element: _Element, types: frozenset[str]) -> bool:
    if "array" in types and "object" not in types:
        return True
    can_be = not types or "array" in types
    return can_be and all(child.key == _ITEM for child in element.children)


def _list(elements: Iterable[_Element], schema: Any, value: str) -> str:
    return "[" + ", ".join(_convert(element, schema, value) for element in elements) + "]"


def _object(element: _Element, schema: Any, value: str) -> str:
    members: dict[str, list[_Element]] = {}
    for child in element.children:
        members.setdefault(child.key, []).append(child)
    written = {key: _member(found, _property(schema, key), value) for key, found in members.items()}
    if text := "".join(element.text).strip():
        written.setdefault(_TEXT, json.dumps(text, ensure_ascii=False))
    pairs = (f"{encode_string(key).decode()}: {json}" for key, json in written.items())
    return "{" + ", ".join(pairs) + "}"


def _member(elements: list[_Element], schema: Any, value: str) -> str:
    if len(elements) == 1:
        return _convert(elements[0], schema, value)
    # A key that is repeated is a list.
    return _list(elements, _items(schema) if "array" in schema_types(schema) else schema, value)


def _property(schema: Any, key: str) -> Any:
    for branch in _branches(schema):
        properties = branch.get("properties")
        if isinstance(properties, dict) and key in properties:
            return properties[key]
    others = (branch.get("additionalProperties") for branch in _branches(schema))
    return next((other for other in others if isinstance(other, dict)), None)


def _items(schema: Any) -> Any:
    items = (branch.get("items") for branch in _branches(schema))
    return next((each for each in items if isinstance(each, dict)), None)


def _branches(schema: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the schema and the branches that it combines."""
    if not isinstance(schema, dict) or depth > 8:
        return
    yield schema
    for combiner in _COMBINERS:
        branches = schema.get(combiner)
        for branch in branches if isinstance(branches, list) else ():
            yield from _branches(branch, depth + 1)
