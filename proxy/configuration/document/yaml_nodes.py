"""Parses YAML into nodes that know their position.

Only a plain subset of YAML is accepted: anchors, aliases, tags and duplicate names are rejected;
`yes`, `012` and dates are text. Every other YAML reader agrees on the numbers, booleans and nulls
that are recognised here. Depth, size and number of nodes are limited.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from proxy.configuration.document.problems import InvalidDocument, Position, Problem
from proxy.security.visible_text import visible

MAX_BYTES = 1024 * 1024
_MAX_NODES = 50_000
_MAX_DEPTH = 20
_MAX_DIGITS = 18
_START = Position(1, 1)
_LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]{1,3})?")
# Characters that a database cannot store.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Node:
    value: Any
    """None, a boolean, a number, a string, a list of nodes, or a dict of nodes."""
    position: Position
    """For an entry of a mapping, the position of its key."""

    def plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        return self.value


def compose(text: str) -> tuple[Node, list[Problem]]:
    """The document's root node and the problems of its parts; raises InvalidDocument."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _invalid(_START, "the document is not valid UTF-8") from None
    if size > MAX_BYTES:
        raise _invalid(_START, f"the document has {size:,} bytes; the maximum is {MAX_BYTES:,}")
    composer = _Composer(text)
    try:
        return composer.document(), composer.problems
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = Position(mark.line + 1, mark.column + 1) if mark else _START
        raise _invalid(
            position, f"this is not valid YAML: {visible(error.problem or '')}"
        ) from None
    except yaml.YAMLError as error:
        raise _invalid(_START, f"this is not valid YAML: {visible(str(error))[:200]}") from None


def join(path: str, name: str) -> str:
    """The path of an entry in a mapping."""
    name = visible(name if len(name) <= 60 else f"{name[:60]}…")
    return f"{path}.{name}" if path else name


class _Composer:
    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._count = 0

    def document(self) -> Node:
        next(self._events)  # the stream's start
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            raise _invalid(_START, "the document is empty")
        node = self._node(next(self._events), "", 0)
        next(self._events)  # the document's end
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise _invalid(_position(event), "a second document starts here; only one is allowed")
        return node

    def _node(self, event: Any, path: str, depth: int) -> Node:
        position = _position(event)
        self._count += 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _invalid(position, "anchors and aliases are not allowed; repeat the value", path)
        if event.tag is not None:
            raise _invalid(position, "tags are not allowed", path)
        if depth > _MAX_DEPTH:
            raise _invalid(position, f"the nesting is deeper than {_MAX_DEPTH} levels", path)
        if self._count > _MAX_NODES:
            raise _invalid(position, f"the document has more than {_MAX_NODES:,} values")
        if isinstance(event, yaml.MappingStartEvent):
            return Node(self._mapping(path, depth), position)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(self._sequence(path, depth), position)
        return Node(self._scalar(event, path), position)

    def _mapping(self, path: str, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, path, depth + 1)
            name = key.value if isinstance(key.value, str) else ""
            if not name:
                self._report(key.position, path, "a name here is not text; put it in quotes")
            inner = join(path, name)
            value = self._node(next(self._events), inner, depth + 1)
            if name and name in entries:
                self._report(key.position, inner, "this name appears twice")
            elif name:
                entries[name] = Node(value.value, key.position)
        return entries

    def _sequence(self, path: str, depth: int) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, f"{path}[{len(items)}]", depth + 1))
        return items

    def _scalar(self, event: Any, path: str) -> Any:
        text: str = event.value
        if _UNSTORABLE.search(text):
            self._report(_position(event), path, "the text has a character that cannot be stored")
            return visible(text)
        if not event.implicit[0]:  # a quoted or block scalar
            return text
        if _NULL.fullmatch(text):
            return None
        if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
            return bool(_TRUE.fullmatch(text))
        if _NUMBER.fullmatch(text) and abs(float(text)) < float("inf"):
            return float(text)
        if not _INTEGER.fullmatch(text):
            return text
        if len(text) > _MAX_DIGITS:
            self._report(_position(event), path, f"a number has at most {_MAX_DIGITS} digits")
            return 0
        return int(text)

    def _report(self, position: Position, path: str, message: str) -> None:
        self.problems.append(Problem(position, path, message))


def _position(event: Any) -> Position:
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)


def _invalid(position: Position, message: str, path: str = "") -> InvalidDocument:
    return InvalidDocument([Problem(position, path, message)])
