"""Markers: the strings that delimit calls in a model's text, found at any split.

A marker is a sequence of atoms, each a regular expression for one step of it. From the atoms follow
two patterns: the whole marker, and any beginning of it that the end of the text cuts off. A
`MarkerSet` searches for all of them in one pass; text that cannot become a marker is never held.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Atoms: TypeAlias = tuple[str, ...]

PARTIAL = "PARTIAL"


def literal(text: str) -> Atoms:
    """The atoms of a marker that has one spelling."""
    return tuple(re.escape(char) for char in text)


def _whole(atoms: Atoms) -> str:
    return f"(?<={atoms[0]}){''.join(atoms[1:])}"


def _cut(atoms: Atoms) -> str:
    pattern = r"\Z"
    for atom in reversed(atoms[1:-1]):
        pattern = rf"(?:\Z|{atom}{pattern})"
    return f"(?<={atoms[0]}){pattern}"


class MarkerSet:
    """Markers by role; a match's `lastgroup` is its role, or PARTIAL for one that is cut off.

    Every marker begins with a single character, so that the search can skip to the next of those.
    """

    def __init__(self, markers: Mapping[str, Sequence[Atoms]]) -> None:
        self._markers = markers
        wholes = [
            f"(?P<{role}>{'|'.join(map(_whole, spellings))})" for role, spellings in markers.items()
        ]
        every = [atoms for spellings in markers.values() for atoms in spellings]
        self.initials = tuple(sorted({atoms[0].removeprefix("\\") for atoms in every}))
        cuts = "|".join(map(_cut, every))
        body = f"{'|'.join(wholes)}|(?P<{PARTIAL}>{cuts})"
        self._regex = re.compile(f"[{re.escape(''.join(self.initials))}](?:{body})")
        self.search = self._regex.search
        self.match = self._regex.match

    def only(self, *roles: str) -> "MarkerSet":
        """The markers of these roles."""
        return MarkerSet({role: self._markers[role] for role in roles})

    def may_be(self, text: str) -> bool:
        """Whether `text` is a marker of this set, or the beginning of one."""
        found = self.match(text)
        return found is not None and found.end() == len(text)
