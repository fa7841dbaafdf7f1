"""Caches for results computed from a request's tools or its system prompt.

A client sends the same tools and prompt with every turn of a session, and they are most of its
bytes. Entries are found by text or by equality. A full cache is cleared, and large entries are not
kept, so clients can fill at most 4 MB with tools and 16 MB with prompts. Messages are not cached.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from msgspec import Struct

from formats.complexity import Complexity
from formats.conversation import ServerTool, Text, Tool
from formats.events import Notice

_T = TypeVar("_T")

_MAX_ENTRIES = 32
_MAX_TOOLS_BYTES = 128 * 1024  # Claude Code's tools have 40 to 60 KB
_MAX_PROMPT_BYTES = 512 * 1024  # of 64,000 characters, if they are not ASCII
_SAMPLE = 32


class ParsedTools(Struct, frozen=True):
    """The tools of a request, and notices of what another dialect cannot carry."""

    tools: tuple[Tool, ...]
    server_tools: tuple[ServerTool, ...] = ()
    notices: tuple[Notice, ...] = ()


_ParseTools: TypeAlias = Callable[[bytes, Complexity], ParsedTools]


def cached_by_text(parse: _ParseTools) -> _ParseTools:
    """Cache `parse`, which takes the JSON text of tools."""
    cache: dict[tuple[object, ...], tuple[bytes, ParsedTools]] = {}

    def parsed(text: bytes, max_complexity: Complexity) -> ParsedTools:
        size = len(text)
        # Comparing two texts takes a tenth of the time of hashing one. Texts with equal keys
        # replace each other.
        key = (
            size,
            text[:_SAMPLE],
            text[size // 2 : size // 2 + _SAMPLE],
            text[-_SAMPLE:],
            max_complexity,
        )
        known = cache.get(key)
        if known is not None and known[0] == text:
            return known[1]
        result = parse(text, max_complexity)
        if size <= _MAX_TOOLS_BYTES:
            if len(cache) >= _MAX_ENTRIES:
                cache.clear()
            cache[key] = text, result
        return result

    return parsed


def _size(tool: Tool) -> int:
    return 200 + len(tool.name) + len(tool.schema) + len(tool.description or "")


def cached_by_tools(make: Callable[[tuple[Tool, ...]], _T]) -> Callable[[tuple[Tool, ...]], _T]:
    """Cache `make`, a function of tools."""
    cache: dict[tuple[Tool, ...], _T] = {}

    def made(tools: tuple[Tool, ...]) -> _T:
        if (result := cache.get(tools)) is not None:
            return result
        result = make(tools)
        if sum(map(_size, tools)) <= _MAX_TOOLS_BYTES:
            if len(cache) >= _MAX_ENTRIES:
                cache.clear()
            cache[tools] = result
        return result

    return made


def cached_by_system(make: Callable[[tuple[Text, ...]], _T]) -> Callable[[tuple[Text, ...]], _T]:
    """Cache `make`, a function of a system prompt."""
    cache: dict[tuple[int, ...], tuple[tuple[Text, ...], _T]] = {}

    def made(system: tuple[Text, ...]) -> _T:
        # Hashing a prompt takes as long as most uses of it. Prompts of equal sizes replace each
        # other.
        sizes = tuple([len(part.text) for part in system])
        known = cache.get(sizes)
        if known is not None and known[0] == system:
            return known[1]
        result = make(system)
        if sum(map(_memory, system)) <= _MAX_PROMPT_BYTES:
            if len(cache) >= _MAX_ENTRIES:
                cache.clear()
            cache[sizes] = system, result
        return result

    return made


def _memory(part: Text) -> int:
    """Return an upper bound of the memory of a part and of the value made from it."""
    return 400 + len(part.text) * (2 if part.text.isascii() else 8)
