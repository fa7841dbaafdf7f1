"""Grammar of calls that are a header with the tool's name, and a JSON object.

    [TOOL_CALLS]get_tide[CALL_ID]a1B2c3D4e[ARGS]{"harbor": "Moss"}

CALL_BEGIN opens the header. A call ends with its object; CALL_END may follow it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from re import Match
from typing import NamedTuple

from formats.events import CallFault
from formats.native.grammar import Context, Opening, Verdict
from formats.native.grammars.streamed_arguments import CallReader, StreamedArguments
from formats.native.markers import PARTIAL, Atoms, MarkerSet

CALL_BEGIN = "CALL_BEGIN"
CALL_END = "CALL_END"
_HEADER = "HEADER"

_SPACE = re.compile(r"\s*")


class Header(NamedTuple):
    name: str
    id: str = ""


class NamedObjectGrammar:
    closers: Mapping[str, str] = {}

    def __init__(
        self,
        tokens: Mapping[str, Sequence[Atoms]],
        headers: Sequence[Atoms],
        read_header: Callable[[str], Header | None],
        *,
        separators: str = "",
        is_special: bool = True,
    ) -> None:
        """`tokens`: CALL_BEGIN and, if it exists, CALL_END. `headers`: the spellings of CALL_BEGIN
        and what follows it, up to the object. `read_header` reads what follows CALL_BEGIN, and
        returns None if it is broken. `separators`: the characters with which tokens inside the
        header begin. `is_special`: CALL_BEGIN is a special token, so that even a header without its
        object is a call.
        """
        self.spellings: Mapping[str, Sequence[Atoms]] = {CALL_BEGIN: tokens[CALL_BEGIN]}
        self.defers_in_reasoning = not is_special
        self.read_header = read_header
        self._is_special = is_special
        # After white space, a word may as well be prose.
        excluded = re.escape(separators)
        token = rf"(?:\s*[{excluded}].*)?" if separators else ""
        self._cut_header = re.compile(rf"(?:\w[^\s{excluded}]*)?{token}", re.DOTALL)
        self.ends = MarkerSet(tokens)
        self._headers = MarkerSet({_HEADER: headers})

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        header = self._headers.match(text, opener.start())
        if header is None:
            return Verdict.RELEASED
        if header.lastgroup == _HEADER:
            reader = NamedObjectReader(self, context, text[opener.end() : header.end()])
            return Opening(reader, header.end())
        if not final:
            return Verdict.UNDECIDED
        is_cut = self._is_special and self._cut_header.fullmatch(text, opener.end())
        return Verdict.TRUNCATED if is_cut else Verdict.RELEASED


class NamedObjectReader(CallReader):
    def __init__(self, grammar: NamedObjectGrammar, context: Context, header: str) -> None:
        super().__init__(context, self._begin)
        self._grammar = grammar
        self._header = header

    def _begin(self, text: str, pos: int, final: bool) -> int | None:
        header = self._grammar.read_header(self._header)
        if header and header.name:
            name = self._context.toolbox.resolve(header.name)
            self._context.output.start(name, header.id.strip())
            self._arguments = StreamedArguments(self._context, ends=self._grammar.ends)
            self._state = self._read_arguments
        else:
            fault = CallFault.MISSING_NAME if header else CallFault.BAD_HEADER
            self._context.output.fail(fault, self._header)
            self._state = self._skip
        return pos

    def _read_arguments(self, text: str, pos: int, final: bool) -> int | None:
        if self._arguments.empty and pos < len(text):
            start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
            marker = self._grammar.ends.match(text, start)
            if marker and marker.lastgroup == PARTIAL and not final:
                return None
            if marker and marker.lastgroup != PARTIAL:
                self._end_call()
                return start
        return super()._read_arguments(text, pos, final)

    def _after_call(self, text: str, pos: int, final: bool) -> int | None:
        """Drop a closing token that may follow the call."""
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.ends.match(text, start)
        if not final and (start == len(text) or (marker and marker.lastgroup == PARTIAL)):
            return None
        self.closed = True
        return marker.end() if marker and marker.lastgroup == CALL_END else pos

    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of a broken call, up to the next token."""
        marker = self._grammar.ends.search(text, pos)
        if marker and marker.lastgroup != PARTIAL:
            self.closed = True
            return marker.end() if marker.lastgroup == CALL_END else marker.start()
        return self._drop_before(marker, text, pos, final)
