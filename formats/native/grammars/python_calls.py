"""Grammar of calls that are written as Python: a list of calls with literal keyword arguments.

    [get_tide(harbor="Moss", days=2), get_wind()]

The list may stand between tokens, where the brackets may be missing. Without tokens, it begins a
call only if its first call has keyword arguments or none, and a declared name. Arguments stream;
nothing is evaluated. A call ends with its parenthesis, whether or not the list does.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from re import Match

from formats.events import CallFault
from formats.native.grammar import Context, Opening, Verdict
from formats.native.grammars.streamed_arguments import CallReader, StreamedArguments
from formats.native.markers import PARTIAL, Atoms, MarkerSet

CALLS_BEGIN = "CALLS_BEGIN"
CALLS_END = "CALLS_END"
_HEADER = "HEADER"

# Schemas allow points and hyphens, which an identifier of Python does not.
_NAME: Atoms = (r"[^\W\d]", r"[\w.-]{0,127}+", r"\s{0,8}+", r"\(")
_BLANKS = r"\s{0,32}+"
_SPACE = re.compile(r"\s*")
_CALL = re.compile(r"([^\W\d][\w.-]{0,127}+)\s{0,8}+\(")
_CUT_CALL = re.compile(r"(?:[^\W\d][\w.-]{0,127}+\s{0,8}+)?\Z")
# What may stand before the next call, inside a list and outside of one.
_IN_LIST = re.compile(r"[\s,;]*")
_OUTSIDE = re.compile(r"[^\S\n]{0,32}+(?:[,;]|\n\s{0,256}+[,;]?)\s{0,256}+")
# What shows that a parenthesis opens arguments: there are none, or the first is a literal.
_ARGUMENTS = re.compile(
    r"""\s{0,32}+(?:(?P<none>\))|\w{1,128}+\s{0,32}+=\s{0,32}+"""
    r"""(?:[rRuU]?["']|[\[{+\-.0-9]|(?:[Tt]rue|[Ff]alse|None|null)(?=[\s,)])))"""
)
# Before a bracket that is an index, or inside a string or another list.
_INSIDE = re.compile(r"""[\w"'(\[{=,]\Z""")
_CUT_ARGUMENTS = re.compile(
    r"\s{0,32}+(?:\w{1,128}+(?:\s{0,32}+(?:=\s{0,32}+[A-Za-z]{0,5}+)?)?)?\Z"
)
# After white space, a word may as well be prose.
_CUT_HEADER = re.compile(r"\s*(?:\[.*)?|[^\W\d][\w.-]*\s*", re.DOTALL)


class PythonCallsGrammar:
    """Calls between CALLS_BEGIN and, if it exists, CALLS_END."""

    defers_in_reasoning = False

    def __init__(
        self,
        tokens: Mapping[str, Sequence[Atoms]],
        *,
        read_name: Callable[[str], str] = str,
    ) -> None:
        """`read_name` takes the tool's name from that of the called function."""
        self.spellings = tokens
        has_end = CALLS_END in tokens
        self.closers: Mapping[str, str] = {CALLS_BEGIN: CALLS_END} if has_end else {}
        self.ends = MarkerSet(tokens)
        self.read_name = read_name
        self._headers = MarkerSet(
            {
                _HEADER: [
                    (*begin, _BLANKS, *bracket, *_NAME)
                    for begin in tokens[CALLS_BEGIN]
                    for bracket in ((), (r"\[", _BLANKS))
                ]
            }
        )

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        if opener.lastgroup == CALLS_END:
            return Verdict.REMOVED
        header = self._headers.match(text, opener.start())
        if header is None:
            return self._open_empty(text, opener.end(), final, context)
        if header.lastgroup == PARTIAL:
            is_cut = final and _CUT_HEADER.fullmatch(text, opener.end())
            return Verdict.TRUNCATED if is_cut else _undecided(final)
        bracket = text.find("[", opener.end(), header.end())
        reader = PythonCallsReader(self.ends, context, self.read_name, in_list=bracket >= 0)
        return Opening(reader, max(bracket + 1, opener.end()))

    def _open_empty(self, text: str, pos: int, final: bool, context: Context) -> Opening | Verdict:
        """Decide an opener that no call follows: with its closer, it is dropped."""
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self.ends.match(text, start)
        if marker is None or start - pos > context.limits.header_chars:
            return Verdict.RELEASED
        if marker.lastgroup == PARTIAL:
            return _undecided(final)
        if marker.lastgroup == CALLS_BEGIN:
            return Verdict.RELEASED
        reader = PythonCallsReader(self.ends, context, str, in_list=False, is_empty=True)
        return Opening(reader, pos)


class BareCallsGrammar:
    """A list of calls without tokens."""

    defers_in_reasoning = True
    closers: Mapping[str, str] = {}

    def __init__(self, ends: Sequence[Atoms], *, at_start: bool = False) -> None:
        """`ends`: tokens that end a call that is broken. `at_start`: the list is the beginning of
        the answer, so the name of a call with arguments need not be declared."""
        self.spellings: Mapping[str, Sequence[Atoms]] = {CALLS_BEGIN: [(r"\[", _BLANKS, *_NAME)]}
        self._ends = MarkerSet({CALLS_END: ends})
        self._at_start = at_start

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        is_declared = context.declares(opener[0][1:-1].strip())
        arguments = _ARGUMENTS.match(text, opener.end())
        if _INSIDE.search(before[-1:]):
            return Verdict.RELEASED
        if not is_declared and (not self._at_start or (arguments and arguments["none"])):
            return Verdict.RELEASED
        if arguments:
            reader = PythonCallsReader(self._ends, context, str, in_list=True, skips_line=True)
            return Opening(reader, opener.start() + 1)
        if not _CUT_ARGUMENTS.match(text, opener.end()):
            return Verdict.RELEASED
        if not final:
            return Verdict.UNDECIDED
        return Verdict.TRUNCATED if is_declared else Verdict.RELEASED


class PythonCallsReader(CallReader):
    def __init__(
        self,
        ends: MarkerSet,
        context: Context,
        read_name: Callable[[str], str],
        *,
        in_list: bool,
        is_empty: bool = False,
        skips_line: bool = False,
    ) -> None:
        """`is_empty`: there is no call. `skips_line`: a broken call ends with its line, because no
        token may follow.
        """
        super().__init__(context, self._after if is_empty else self._begin)
        self._ends = ends
        self._read_name = read_name
        self._in_list = in_list
        self._skips_line = skips_line

    def _begin(self, text: str, pos: int, final: bool) -> int | None:
        call = _CALL.match(text, _SPACE.match(text, pos).end())  # type: ignore[union-attr]
        return self._start(call)  # type: ignore[arg-type]

    def _start(self, call: Match[str]) -> int:
        name = self._read_name(call[1])
        self._context.output.start(self._context.toolbox.resolve(name))
        self._arguments = StreamedArguments(self._context, ends=self._ends, python=True)
        self._state = self._read_arguments
        return call.end()

    def _after_call(self, text: str, pos: int, final: bool) -> int | None:
        """Read after a call: another one, the end of the list, a token, or other text."""
        separator = (_IN_LIST if self._in_list else _OUTSIDE).match(text, pos)
        start = (separator or _SPACE.match(text, pos)).end()  # type: ignore[union-attr]
        if start - pos > self._context.limits.header_chars:
            self.closed = True
            return pos
        if separator and (call := _CALL.match(text, start)):
            return self._start(call)
        if self._in_list and text.startswith("]", start):
            self._in_list = False
            self._state = self._after
            return start + 1
        is_cut = separator is not None and _CUT_CALL.match(text, start) is not None
        if is_cut and start < len(text) and final:
            self._context.output.fail(CallFault.TRUNCATED, text[start:])
            self.closed = True
            return len(text)
        if is_cut and not final:
            return None
        if self._in_list and "," in text[pos:start] and not self._ends.match(text, start):
            if start < len(text):
                self._context.output.fail(CallFault.MALFORMED, text[start:])
                self._state = self._skip
                return start
        return self._end(text, pos, start, final)

    def _after(self, text: str, pos: int, final: bool) -> int | None:
        """Read after a list."""
        return self._end(text, pos, _SPACE.match(text, pos).end(), final)  # type: ignore[union-attr]

    def _end(self, text: str, pos: int, start: int, final: bool) -> int | None:
        """Drop the closing token, if it is at `start`; else the text from `pos` on is text."""
        if start - pos > self._context.limits.header_chars:
            self.closed = True
            return pos
        marker = self._ends.match(text, start)
        if not final and (start == len(text) or (marker and marker.lastgroup == PARTIAL)):
            return None
        self.closed = True
        if marker and marker.lastgroup != CALLS_BEGIN:
            return marker.end()
        return len(text) if start == len(text) and self._in_list else pos

    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of a broken call, up to the next token or the end of the line."""
        marker = self._ends.search(text, pos)
        line_end = text.find("\n", pos, marker.start() if marker else len(text))
        if self._skips_line and line_end >= 0:
            self.closed = True
            return line_end
        if marker and marker.lastgroup != PARTIAL:
            self.closed = True
            return marker.start() if marker.lastgroup == CALLS_BEGIN else marker.end()
        return self._drop_before(marker, text, pos, final)


def _undecided(final: bool) -> Verdict:
    """Return the verdict on a token that the text cuts off."""
    return Verdict.RELEASED if final else Verdict.UNDECIDED
