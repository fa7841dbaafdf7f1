"""Grammar of calls between special tokens: a section of calls, each a header and a JSON object.

    SECTION_BEGIN { CALL_BEGIN header ARGUMENTS_BEGIN {json} CALL_END } SECTION_END

An end token may be missing once the object before it is complete, both section tokens may be
missing, and white space or noise may appear between any two tokens.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from re import Match

from formats.events import CallFault, NoticeCode
from formats.native.grammar import (
    CallOutput,
    Context,
    Name,
    Opening,
    StateReader,
    Unnamed,
    Verdict,
)
from formats.native.grammars.streamed_arguments import Outcome, StreamedArguments
from formats.native.markers import PARTIAL, Atoms, MarkerSet
from formats.toolbox import Toolbox

SECTION_BEGIN = "SECTION_BEGIN"
CALL_BEGIN = "CALL_BEGIN"
ARGUMENTS_BEGIN = "ARGUMENTS_BEGIN"
CALL_END = "CALL_END"
SECTION_END = "SECTION_END"

_PLAIN_HEADER = re.compile(r"[A-Za-z0-9_.:\-\s]*")
_SPACE = re.compile(r"\s*")
_FENCE = " \t\r\n`"  # characters after the arguments that do not count as text
_LAST_HEADER = re.compile(r"[A-Za-z0-9_.-]{1,80}:\d{1,6}\s*\Z")
# Models put the arguments into a Markdown fence.
_FENCE_BEGIN = re.compile(r"```[A-Za-z]{0,16}(?=[^A-Za-z])")
_CUT_FENCE = re.compile(r"`{1,2}\Z|```[A-Za-z]{0,16}\Z")
_JSON_START = re.compile(r'[{\["]')


class Lookahead(Enum):
    MARKER = "the next token is near"
    FAR = "no token within the limit"
    END = "the text ends first"
    UNDECIDED = "more text must come"


class Tokens:
    """The special tokens of a format, and the functions that find the tool's name."""

    def __init__(
        self,
        spellings: Mapping[str, Sequence[Atoms]],
        read_header: Callable[[str, Toolbox], Name],
        read_preamble: Callable[[str], Name] = lambda preamble: Unnamed.BAD,
        *,
        repeats_name: bool = False,
        tail: tuple[str, ...] = (),
    ) -> None:
        """`read_preamble` finds the name between ARGUMENTS_BEGIN and the JSON, where `read_header`
        returned AFTER_SEPARATOR. `repeats_name`: a second ARGUMENTS_BEGIN calls the same tool
        again. `tail`: strings that belong to SECTION_END if one follows it.
        """
        self.spellings = spellings
        self.read_header = read_header
        self.read_preamble = read_preamble
        self.repeats_name = repeats_name
        self.tail = tail
        self.markers = MarkerSet(spellings)
        ends = (role for role in (CALL_END, SECTION_END) if role in spellings)
        self.ends = self.markers.only(*ends)

    def with_spelling(self, role: str, atoms: Atoms) -> "Tokens":
        """Return a copy with one more spelling of a token."""
        return Tokens(
            {**self.spellings, role: [*self.spellings[role], atoms]},
            self.read_header,
            self.read_preamble,
            repeats_name=self.repeats_name,
            tail=self.tail,
        )

    def look_ahead(
        self, text: str, pos: int, final: bool, limit: int
    ) -> tuple[Lookahead, Match[str] | None]:
        """Search for the next token within `limit` characters; it may be cut off by the end."""
        marker = self.markers.search(text, pos)
        if (marker.start() if marker else len(text)) - pos > limit:
            return Lookahead.FAR, None
        if marker is None or marker.lastgroup == PARTIAL:
            return (Lookahead.END if final else Lookahead.UNDECIDED), marker
        return Lookahead.MARKER, marker


class TokenGrammar:
    closers: Mapping[str, str] = {SECTION_BEGIN: SECTION_END, CALL_BEGIN: CALL_END}

    def __init__(
        self,
        tokens: Tokens,
        *,
        removes_stray_tokens: bool = True,
        defers_in_reasoning: bool = False,
    ) -> None:
        """`removes_stray_tokens`: a token outside a section is removed, not sent as text."""
        self.spellings = tokens.spellings
        self.defers_in_reasoning = defers_in_reasoning
        self._tokens = tokens
        self._removes_stray_tokens = removes_stray_tokens

    def with_spelling(self, role: str, atoms: Atoms) -> "TokenGrammar":
        """Return a copy with one more spelling of a token."""
        return TokenGrammar(
            self._tokens.with_spelling(role, atoms),
            removes_stray_tokens=self._removes_stray_tokens,
            defers_in_reasoning=self.defers_in_reasoning,
        )

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        match opener.lastgroup:
            case "SECTION_BEGIN":
                return self._open_section(text, opener.end(), final, context)
            case "CALL_BEGIN":
                return self._open_call(
                    text, opener.end(), final, TokenReader(self._tokens, context)
                )
            case "ARGUMENTS_BEGIN":  # the tokens before it are lost: its header is in the text
                start = _SPACE.match(text, opener.end()).end()  # type: ignore[union-attr]
                if start == len(text) and not final:
                    return Verdict.UNDECIDED
                if text[start : start + 1] == "{":
                    header = _LAST_HEADER.search(before)
                    if header and context.declares(
                        self._tokens.read_header(header[0].strip(), context.toolbox)
                    ):
                        reader = TokenReader(self._tokens, context, header=header[0])
                        return Opening(reader, opener.end())
        return Verdict.REMOVED if self._removes_stray_tokens else Verdict.RELEASED

    def _open_section(
        self, text: str, pos: int, final: bool, context: Context
    ) -> Opening | Verdict:
        reader = TokenReader(self._tokens, context, in_section=True)
        lookahead, marker = self._tokens.look_ahead(text, pos, final, context.limits.header_chars)
        match lookahead, marker:
            case Lookahead.UNDECIDED, _:
                return Verdict.UNDECIDED
            case Lookahead.END, None if text[pos:].strip():
                return Verdict.RELEASED
            case Lookahead.END, _:
                return Verdict.TRUNCATED
            case Lookahead.MARKER, Match(lastgroup="CALL_BEGIN"):
                return self._open_call(text, marker.end(), final, reader)
            case Lookahead.MARKER, Match(lastgroup="SECTION_END"):
                prose = text[pos : marker.start()].strip()
                return Verdict.RELEASED if prose else Opening(reader, pos)
            case Lookahead.MARKER, Match():
                return Opening(reader, pos)
        return Verdict.RELEASED

    def _open_call(
        self, text: str, pos: int, final: bool, reader: "TokenReader"
    ) -> Opening | Verdict:
        lookahead, marker = self._tokens.look_ahead(text, pos, final, reader.header_chars)
        header = text[pos : marker.start() if marker else len(text)]
        match lookahead, marker:
            case Lookahead.UNDECIDED, _:
                return Verdict.UNDECIDED
            case Lookahead.END, _ if _PLAIN_HEADER.fullmatch(header):
                return Verdict.TRUNCATED
            case Lookahead.MARKER, Match(lastgroup="ARGUMENTS_BEGIN"):
                reader.header = header
                return Opening(reader, marker.end())
            case Lookahead.MARKER, Match() if reader.in_section or _PLAIN_HEADER.fullmatch(header):
                reader.header_is_cut = True
                return Opening(reader, pos)
            # No word of prose is so long.
            case Lookahead.FAR, _ if len(text[pos : pos + reader.header_chars].split()) == 1:
                reader.header_is_cut = True
                return Opening(reader, pos)
        return Verdict.RELEASED


class TokenReader(StateReader):
    def __init__(
        self,
        tokens: Tokens,
        context: Context,
        *,
        in_section: bool = False,
        header: str | None = None,
    ) -> None:
        super().__init__(context, self._begin)
        self.in_section = in_section
        self.header = header
        self.header_is_cut = False
        self.header_chars = context.limits.header_chars
        self._tokens = tokens
        self._name: Name = Unnamed.BAD
        self._captured = CallOutput()  # arguments from which the tool has to be inferred
        self._arguments: StreamedArguments

    def _begin(self, text: str, pos: int, final: bool) -> int | None:
        if self.header is not None:
            self._start_call(self.header)
        else:
            self._state = self._read_header if self.header_is_cut else self._between
        return pos

    def _start_call(self, header: str) -> None:
        self._name = self._tokens.read_header(header.strip(), self._context.toolbox)
        if self._name is Unnamed.AFTER_SEPARATOR:
            self._state = self._read_preamble
        else:
            self._start_arguments(header)

    def _start_arguments(self, header: str) -> None:
        context = self._context
        match self._name:
            case str(name):
                context.output.start(name)
            case Unnamed.COUNTER:
                self._captured = CallOutput(context.limits.held_chars)
                context = replace(context, output=self._captured)
            case _:
                context.output.fail(CallFault.BAD_HEADER, header)
        self._arguments = StreamedArguments(
            context,
            ends=self._tokens.ends,
            muted=self._name in (Unnamed.BAD, Unnamed.AFTER_SEPARATOR),
        )
        self._state = self._read_arguments

    def _read_header(self, text: str, pos: int, final: bool) -> int | None:
        lookahead, marker = self._tokens.look_ahead(text, pos, final, self.header_chars)
        match lookahead, marker:
            case Lookahead.UNDECIDED, _:
                return None
            case Lookahead.MARKER, Match(lastgroup="ARGUMENTS_BEGIN"):
                self._start_call(text[pos : marker.start()])
                return marker.end()
            case Lookahead.MARKER, Match():
                self._context.output.fail(CallFault.BAD_HEADER, text[pos : marker.start()])
                self._state = self._between
                return marker.start()
            case Lookahead.END, _:
                self._context.output.fail(CallFault.TRUNCATED, text[pos:])
                self.closed = True
                return len(text)
        self._context.output.fail(CallFault.BAD_HEADER, text[pos:])
        self._state = self._skip
        return pos

    def _read_preamble(self, text: str, pos: int, final: bool) -> int | None:
        # The margin is longer than any marker.
        window = text[: pos + self.header_chars + 64]
        start = _JSON_START.search(window, pos)
        marker = self._tokens.markers.search(window, pos)
        end = min(match.start() if match else len(window) for match in (start, marker))
        if end - pos > self.header_chars:
            end = pos + self.header_chars
        elif end == len(text) or (marker and marker.start() == end and marker.lastgroup == PARTIAL):
            if not final:
                return None
            self._context.output.fail(CallFault.TRUNCATED, text[pos:])
            self.closed = True
            return len(text)
        preamble = text[pos:end]
        self._name = self._tokens.read_preamble(preamble)
        self._start_arguments(preamble)
        return end

    def _read_arguments(self, text: str, pos: int, final: bool) -> int | None:
        if pos == len(text) and not final:
            return None
        if self._arguments.empty:
            start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
            marker = self._tokens.markers.match(text, start)
            if marker and marker.lastgroup != PARTIAL:
                self._end_call()
                return start
            if marker and not final:
                return None
            if fence := _FENCE_BEGIN.match(text, start):
                return fence.end()
            if _CUT_FENCE.match(text, start):
                return len(text) if final else None
        outcome, end = self._arguments.read(text, pos, final)
        if outcome is Outcome.COMPLETE:
            self._end_call()
        elif outcome is Outcome.FAILED:
            self.rewind = self._arguments.rewind
            self._context.output.fail_as(self._captured)
            self._state = self._skip
        return end

    def _end_call(self) -> None:
        output = self._context.output
        self._state = self._between
        match self._name:
            case Unnamed.COUNTER:
                arguments = self._captured.text() or "{}"
                inferred = self._context.toolbox.infer(json.loads(arguments))
                if inferred is None:
                    output.fail(CallFault.BAD_HEADER, arguments)
                    return
                output.notice(NoticeCode.NAME_RESOLVED, inferred)
                output.start(inferred)
                output.arguments(arguments)
                output.end()
            case str():
                output.end()

    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of a broken call, up to the next token."""
        marker = self._tokens.markers.search(text, pos)
        if marker and marker.lastgroup == ARGUMENTS_BEGIN:
            return marker.end()
        if marker and marker.lastgroup != PARTIAL:
            self._state = self._between
            return marker.start()
        return self._drop_before(marker, text, pos, final)

    def _between(self, text: str, pos: int, final: bool) -> int | None:
        """Read between calls: noise before a token is dropped, other text ends the region."""
        lookahead, marker = self._tokens.look_ahead(text, pos, final, self.header_chars)
        if lookahead is Lookahead.UNDECIDED:
            return None
        if marker is None or lookahead is not Lookahead.MARKER:
            return self._leave(text, pos, marker)
        noise = text[pos : marker.start()]
        match marker.lastgroup:
            case "ARGUMENTS_BEGIN" if self._tokens.repeats_name and isinstance(self._name, str):
                self._start_arguments(noise)
            case "ARGUMENTS_BEGIN":
                self._start_call(noise)
            case "CALL_BEGIN":
                self._state = self._read_header
            case "SECTION_BEGIN":
                self.in_section = True
            case "SECTION_END" if self._tokens.tail:
                self._state = self._read_tail
            case "SECTION_END":
                self.closed = True
            case "CALL_END" if not self.in_section:
                self.closed = True
        if marker.lastgroup != ARGUMENTS_BEGIN and noise.strip():
            self._context.output.notice(NoticeCode.MARKUP_REMOVED, noise)
        return marker.end()

    def _read_tail(self, text: str, pos: int, final: bool) -> int | None:
        if pos == len(text) and not final:
            return None
        self.closed = True
        return pos + text.startswith(self._tokens.tail, pos)

    def _leave(self, text: str, pos: int, cut: Match[str] | None) -> int:
        """End a section that has no end token."""
        self.closed = True
        if cut and not self._tokens.ends.may_be(cut[0]):
            self._context.output.fail(CallFault.TRUNCATED, cut[0])
        elif self.in_section and self._context.strict:
            self._context.output.fail(CallFault.TRUNCATED, "the section has no end token")
        noise = text[pos : cut.start() if cut else len(text)]
        return pos if noise.strip(_FENCE) else len(text)
