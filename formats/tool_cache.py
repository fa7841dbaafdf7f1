"""What is made of a request's tools and its system prompt, remembered for the next turn.

A client sends the same with every turn of a session, and they are most of its bytes. They are known
again by their text, or by being equal. What was used long ago is forgotten, and what is large is
never kept: 4 MB of tools and 16 MB of prompts are all that clients can fill. Deliberately absent:
anything else that is said.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from msgspec import Struct

from formats.complexity import Complexity
from formats.conversation import ServerTool, Text, Tool
from formats.events import Notice

_T = TypeVar("_T")

_REMEMBERED = 32
_LARGEST = 128 * 1024  # Claude Code's own have 40 to 60 KB
_LARGEST_PROMPT = 512 * 1024  # of 64,000 characters, if they are not ASCII
_SAMPLE = 32


class ParsedTools(Struct, frozen=True):
    """The tools of a request, and what another dialect cannot be told of them."""

    tools: tuple[Tool, ...]
    server_tools: tuple[ServerTool, ...] = ()
    notices: tuple[Notice, ...] = ()


_ParseTools: TypeAlias = Callable[[bytes, Complexity], ParsedTools]


def cached_by_text(parse: _ParseTools) -> _ParseTools:
    """`parse`, of the JSON text of tools, and how complex it may be."""
    kept: dict[tuple[object, ...], tuple[bytes, ParsedTools]] = {}

    def parsed(text: bytes, max_complexity: Complexity) -> ParsedTools:
        size = len(text)
        # To compare two texts takes a tenth of the time of hashing one. Those that are alike here
        # and differ elsewhere take turns.
        alike = (
            size,
            text[:_SAMPLE],
            text[size // 2 : size // 2 + _SAMPLE],
            text[-_SAMPLE:],
            max_complexity,
        )
        known = kept.get(alike)
        if known is not None and known[0] == text:
            return known[1]
        offered = parse(text, max_complexity)
        if size <= _LARGEST:
            if len(kept) >= _REMEMBERED:
                kept.clear()
            kept[alike] = text, offered
        return offered

    return parsed


def _size(tool: Tool) -> int:
    return 200 + len(tool.name) + len(tool.schema) + len(tool.description or "")


def cached_by_tools(make: Callable[[tuple[Tool, ...]], _T]) -> Callable[[tuple[Tool, ...]], _T]:
    """`make`, of tools alone."""
    kept: dict[tuple[Tool, ...], _T] = {}

    def made(tools: tuple[Tool, ...]) -> _T:
        if (found := kept.get(tools)) is not None:
            return found
        found = make(tools)
        if sum(map(_size, tools)) <= _LARGEST:
            if len(kept) >= _REMEMBERED:
                kept.clear()
            kept[tools] = found
        return found

    return made


def cached_by_system(make: Callable[[tuple[Text, ...]], _T]) -> Callable[[tuple[Text, ...]], _T]:
    """`make`, of a system prompt alone."""
    kept: dict[tuple[int, ...], tuple[tuple[Text, ...], _T]] = {}

    def made(system: tuple[Text, ...]) -> _T:
        # Hashing it takes as long as making most things of it. Those of like sizes take turns.
        sizes = tuple([len(part.text) for part in system])
        known = kept.get(sizes)
        if known is not None and known[0] == system:
            return known[1]
        found = make(system)
        if sum(map(_room, system)) <= _LARGEST_PROMPT:
            if len(kept) >= _REMEMBERED:
                kept.clear()
            kept[sizes] = system, found
        return found

    return made


def _room(part: Text) -> int:
    """Bytes that it takes, at most, and what is made of it."""
    return 400 + len(part.text) * (2 if part.text.isascii() else 8)
