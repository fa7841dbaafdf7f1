"""Grammar of tool outputs that the model writes itself, after its own call.

    OUTPUT_BEGIN { OUTPUT_BEGIN } invented output OUTPUT_END { OUTPUT_END }

No tool has run, so the text between the tokens is dropped. It ends at the last end token, at a
token that begins or ends a turn, or with the response.
"""

import re
from collections.abc import Mapping, Sequence
from re import Match

from formats.events import NoticeCode
from formats.native.grammar import Context, Opening, StateReader, Verdict
from formats.native.markers import PARTIAL, Atoms, MarkerSet

OUTPUT_BEGIN = "OUTPUT_BEGIN"
OUTPUT_END = "OUTPUT_END"

_SPACE = re.compile(r"\s*")
_TURN = "TURN"


class PlayedOutputGrammar:
    defers_in_reasoning = False
    closers: Mapping[str, str] = {OUTPUT_BEGIN: OUTPUT_END}

    def __init__(
        self, begin: Sequence[Atoms], end: Sequence[Atoms], turn_markers: Sequence[Atoms]
    ) -> None:
        self.spellings: Mapping[str, Sequence[Atoms]] = {OUTPUT_BEGIN: begin, OUTPUT_END: end}
        self.tokens = MarkerSet(self.spellings)
        turns = {_TURN: turn_markers} if turn_markers else {}
        self.ends = MarkerSet({OUTPUT_END: end, **turns})

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        if opener.lastgroup == OUTPUT_BEGIN:
            return Opening(PlayedOutputReader(self, context), opener.end())
        return Verdict.REMOVED


class PlayedOutputReader(StateReader):
    def __init__(self, grammar: PlayedOutputGrammar, context: Context) -> None:
        super().__init__(context, self._begin)
        self._grammar = grammar

    def _begin(self, text: str, pos: int, final: bool) -> int | None:
        self._context.output.notice(NoticeCode.TOOL_OUTPUT_DROPPED)
        self._state = self._drop
        return pos

    def _drop(self, text: str, pos: int, final: bool) -> int | None:
        marker = self._grammar.ends.search(text, pos)
        if marker and marker.lastgroup == OUTPUT_END:
            self._state = self._after
            return marker.end()
        if final or (marker and marker.lastgroup == _TURN):
            self.closed = True
            return marker.start() if marker and marker.lastgroup == _TURN else len(text)
        end = marker.start() if marker else len(text)
        return end if end > pos else None

    def _after(self, text: str, pos: int, final: bool) -> int | None:
        """Read after an end token: another one, another output, or the end of all outputs."""
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.tokens.match(text, start)
        if not final and (start == len(text) or (marker and marker.lastgroup == PARTIAL)):
            return None
        if marker and marker.lastgroup == OUTPUT_BEGIN:
            self._state = self._drop
            return marker.end()
        if marker and marker.lastgroup == OUTPUT_END:
            return marker.end()
        self.closed = True
        return pos
