"""Markers: the strings that delimit calls in a model's text, found however the text is split.

A marker is a sequence of atoms, each a regular expression for one step of it. Two patterns are
built from the atoms: the whole marker, and any beginning of it at the end of the text. A
`MarkerSet` searches for all of them in one pass. Text that cannot become a marker is never held.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Atoms: TypeAlias = tuple[str, ...]

PARTIAL = "PARTIAL"


def literal(text: str) -> Atoms:
    """Return the atoms of a marker with one fixed spelling."""
    return tuple(re.escape(char) for char in text)


def _whole(atoms: Atoms) -> str:
    return f"(?<={atoms[0]}){''.join(atoms[1:])}"


def _cut(atoms: Atoms) -> str:
    pattern = r"\Z"
    for atom in reversed(atoms[1:-1]):
        pattern = rf"(?:\Z|{atom}{pattern})"
    return f"(?<={atoms[0]}){pattern}"


class MarkerSet:
    """Markers by role. The `lastgroup` of a match is its role, or PARTIAL if it is cut off.

    Every marker begins with a fixed character, so the search skips to the next such character.
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
        """Return a set with the markers of these roles."""
        return MarkerSet({role: self._markers[role] for role in roles})

    def may_be(self, text: str) -> bool:
        """Return whether `text` is a marker of this set, or the beginning of one."""
        match = self.match(text)
        return match is not None and match.end() == len(text)
