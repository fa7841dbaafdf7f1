"""The special tokens of a format, and the way its headers name a tool."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from re import Match

from formats.native.markers import PARTIAL, Atoms, MarkerSet
from formats.native.region import Name, Unnamed
from formats.toolbox import Toolbox

SECTION_BEGIN = "SECTION_BEGIN"
CALL_BEGIN = "CALL_BEGIN"
ARGUMENTS_BEGIN = "ARGUMENTS_BEGIN"
CALL_END = "CALL_END"
SECTION_END = "SECTION_END"


class Ahead(Enum):
    MARKER = "the next token is near"
    FAR = "no token within the limit"
    END = "the text ends first"
    UNDECIDED = "more text must come"


class Tokens:
    def __init__(
        self,
        spellings: Mapping[str, Sequence[Atoms]],
        read_header: Callable[[str, Toolbox], Name],
        read_preamble: Callable[[str], Name] = lambda preamble: Unnamed.BAD,
        *,
        repeats_name: bool = False,
        tail: tuple[str, ...] = (),
    ) -> None:
        """`read_preamble` finds the name between ARGUMENTS_BEGIN and the JSON, where the header
        said that it is BEHIND. `repeats_name`: a second ARGUMENTS_BEGIN calls the same tool again.
        `tail`: what belongs to SECTION_END if it follows.
        """
        self.spellings = spellings
        self.read_header = read_header
        self.read_preamble = read_preamble
        self.repeats_name = repeats_name
        self.tail = tail
        self.markers = MarkerSet(spellings)
        ends = (role for role in (CALL_END, SECTION_END) if role in spellings)
        self.ends = self.markers.only(*ends)

    def spelled(self, role: str, atoms: Atoms) -> "Tokens":
        """These tokens with one more spelling of one of them."""
        return Tokens(
            {**self.spellings, role: [*self.spellings[role], atoms]},
            self.read_header,
            self.read_preamble,
            repeats_name=self.repeats_name,
            tail=self.tail,
        )

    def ahead(
        self, text: str, pos: int, final: bool, limit: int
    ) -> tuple[Ahead, Match[str] | None]:
        """How far the next token is, and that token, whole or cut off by the end."""
        marker = self.markers.search(text, pos)
        if (marker.start() if marker else len(text)) - pos > limit:
            return Ahead.FAR, None
        if marker is None or marker.lastgroup == PARTIAL:
            return (Ahead.END if final else Ahead.UNDECIDED), marker
        return Ahead.MARKER, marker
