"""YAML text → nodes that know where they stand.

The plain part of YAML and no more: anchors, aliases, tags and names that are there twice are
refused; `yes`, `012` and dates are text. What is a number, a boolean or null here is one for every
other reader of YAML too. Depth, size and number of nodes are bounded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from proxy.configuration.document.problems import Place, Problem, Refused
from proxy.security.visible_text import visible

MOST_BYTES = 1024 * 1024
_MOST_NODES = 50_000
_MOST_DEPTH = 20
_MOST_DIGITS = 18
_START = Place(1, 1)
_LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]{1,3})?")
# What no database can store.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Node:
    value: Any
    """None, a boolean, a number, a text, a list of nodes, or a dict of nodes."""
    place: Place
    """Of an entry in a mapping: where its key is."""

    def plain(self) -> Any:
        """The value, without places."""
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        return self.value


def compose(text: str) -> tuple[Node, list[Problem]]:
    """The document's node, and what is wrong with its parts; raises Refused."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _refused(_START, "it is not UTF-8") from None
    if size > MOST_BYTES:
        raise _refused(_START, f"it has {size:,} bytes, and {MOST_BYTES:,} is the most")
    composer = _Composer(text)
    try:
        return composer.document(), composer.problems
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else _START
        raise _refused(place, f"it is not YAML: {visible(error.problem or '')}") from None
    except yaml.YAMLError as error:
        raise _refused(_START, f"it is not YAML: {visible(str(error))[:200]}") from None


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
            raise _refused(_START, "it is empty")
        node = self._node(next(self._events), "", 0)
        next(self._events)  # the document's end
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise _refused(_place(event), "a second document begins here: there can be one only")
        return node

    def _node(self, event: Any, path: str, depth: int) -> Node:
        place = _place(event)
        self._count += 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _refused(place, "anchors and aliases are not allowed: write it out", path)
        if event.tag is not None:
            raise _refused(place, "tags are not allowed", path)
        if depth > _MOST_DEPTH:
            raise _refused(place, f"it is nested more than {_MOST_DEPTH} deep", path)
        if self._count > _MOST_NODES:
            raise _refused(place, f"it has more than {_MOST_NODES:,} values")
        if isinstance(event, yaml.MappingStartEvent):
            return Node(self._mapping(path, depth), place)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(self._sequence(path, depth), place)
        return Node(self._scalar(event, path), place)

    def _mapping(self, path: str, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, path, depth + 1)
            name = key.value if isinstance(key.value, str) else ""
            if not name:
                self._blame(key.place, path, "a name here is not text: put it into quotes")
            inner = join(path, name)
            value = self._node(next(self._events), inner, depth + 1)
            if name and name in found:
                self._blame(key.place, inner, "it is there twice")
            elif name:
                found[name] = Node(value.value, key.place)
        return found

    def _sequence(self, path: str, depth: int) -> list[Node]:
        found: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            found.append(self._node(event, f"{path}[{len(found)}]", depth + 1))
        return found

    def _scalar(self, event: Any, path: str) -> Any:
        text: str = event.value
        if _UNSTORABLE.search(text):
            self._blame(_place(event), path, "it has a character that cannot be stored")
            return visible(text)
        if not event.implicit[0]:  # it is in quotes, or a block
            return text
        if _NULL.fullmatch(text):
            return None
        if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
            return bool(_TRUE.fullmatch(text))
        if _NUMBER.fullmatch(text) and abs(float(text)) < float("inf"):
            return float(text)
        if not _WHOLE.fullmatch(text):
            return text
        if len(text) > _MOST_DIGITS:
            self._blame(_place(event), path, f"a number has at most {_MOST_DIGITS} digits")
            return 0
        return int(text)

    def _blame(self, place: Place, path: str, message: str) -> None:
        self.problems.append(Problem(place, path, message))


def _place(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


def _refused(place: Place, message: str, path: str = "") -> Refused:
    return Refused([Problem(place, path, message)])
