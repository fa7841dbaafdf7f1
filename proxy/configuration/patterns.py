"""Matches model names with the patterns of routes, overrides and keys: `*`, `?` and `[…]`.

A pattern is prepared once, in the thread that loads the snapshot. fnmatch keeps 256 patterns only:
with more routes than that it compiled all of them again for each new name, on the event loop.
"""

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache

_MAX_PREPARED = 32_768


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches; the case counts."""
    return matcher(pattern)(name)


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
