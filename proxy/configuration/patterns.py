"""Matches model names with the patterns of routes, overrides and keys: `*`, `?` and `[…]`.

A pattern is prepared once, in the thread that loads the snapshot. fnmatch keeps 256 patterns only:
with more routes than that it compiled all of them again for each new name, on the event loop.
`PatternIndex` finds the few of many patterns that a name may match: trying 10,000 of them took 5 ms
a name, and the model list has a thousand names.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from functools import lru_cache
from itertools import chain

_MAX_PREPARED = 32_768
_WILDCARD = re.compile(r"[*?]|\[!?\]?[^\]]*\]")
_MAX_INDEXED_NAME = 300
"""Characters. A longer name, which only a hostile client sends, has too many parts."""


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches; the case counts."""
    return matcher(pattern)(name)


class PatternIndex:
    """Many patterns, by the longest part without wildcards: a matching name contains it.

    The parts of a name are looked up in a dict. Only the patterns of those that are found are
    tried.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._matchers: list[Callable[[str], bool]] = []
        self._positions: dict[str, list[int]] = {}
        for position, pattern in enumerate(patterns):
            self._matchers.append(matcher(pattern))
            literal = max(_WILDCARD.split(pattern), key=len)
            self._positions.setdefault(literal, []).append(position)
        self._lengths = frozenset(map(len, self._positions))

    def matching(self, name: str) -> Iterator[int]:
        """Yield the positions of the patterns that match, in their order."""
        return (at for at in self._candidates(name) if self._matchers[at](name))

    def _candidates(self, name: str) -> Iterable[int]:
        if len(name) > _MAX_INDEXED_NAME:
            return range(len(self._matchers))
        parts = {
            name[at : at + length]
            for length in self._lengths
            for at in range(len(name) - length + 1)
        }
        return sorted(
            chain.from_iterable(map(self._positions.__getitem__, parts & self._positions.keys()))
        )


@lru_cache(_MAX_PREPARED)
def matcher(pattern: str) -> Callable[[str], bool]:
    if "?" in pattern or "[" in pattern:
        match = re.compile(translate(pattern)).match
        return lambda name: match(name) is not None
    if "*" not in pattern:
        return pattern.__eq__
    first, *middle, last = pattern.split("*")
    shortest = len(first) + len(last)

    def matches_parts(name: str) -> bool:
        if len(name) < shortest or not (name.startswith(first) and name.endswith(last)):
            return False
        at, end = len(first), len(name) - len(last)
        for part in middle:
            at = name.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return matches_parts
