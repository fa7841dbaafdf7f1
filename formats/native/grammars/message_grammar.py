"""Grammar of messages with headers, of which some are calls.

    MESSAGE_START role CHANNEL name CONSTRAIN type BODY body MESSAGE_END

A header with a recipient, `to=NAME` anywhere in it, makes a call, and the body is its arguments.
Any other message is text, or reasoning in a channel for that. The first message has no
MESSAGE_START, and the last one often no MESSAGE_END, because the upstream stops there.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from re import Match
from typing import NamedTuple

from formats.events import CallFault, NoticeCode
from formats.native.grammar import Context, Opening, Passage, Verdict
from formats.native.grammars.streamed_arguments import CallReader, StreamedArguments
from formats.native.markers import PARTIAL, Atoms, MarkerSet, literal

MESSAGE_START = "MESSAGE_START"
CHANNEL = "CHANNEL"
CONSTRAIN = "CONSTRAIN"
BODY = "BODY"
MESSAGE_END = "MESSAGE_END"
RECIPIENT = "RECIPIENT"

_SPACE = re.compile(r"\s*")
_WORDS = re.compile(r"\s*+(?:[\w.:=/-]++\s*+){0,4}")
_TO = re.compile(r"to=(\S+)")
_MAX_TOKENS = 8
"""In one header. A model writes four; more would be read again for each of them."""
_TOOL = "functions."
_SELF = "assistant"
_RECIPIENT: Atoms = (*literal("to="), r"[\w.-]{1,128}", r"[\sA-Za-z]{0,32}")


class Header(NamedTuple):
    recipient: str | None = None
    """The tool that is called."""
    channel: str = ""
    type: str = "json"
    is_output: bool = False
    """True if this is a tool's output, which the model has invented."""


def read_header(pieces: Sequence[tuple[str, str]]) -> Header:
    """Read the pieces of a header, each with the role of the token before it."""
    text = " ".join(piece for _, piece in pieces)
    recipient = next((name for name in _TO.findall(text) if name != _SELF), None)
    channels = [piece.split() for role, piece in pieces if role == CHANNEL]
    channel = channels[-1][0] if channels and channels[-1] else ""
    role, last = pieces[-1]
    words = [word for word in last.split() if not word.startswith("to=")]
    types = words if role == CONSTRAIN else words[1:] if role == CHANNEL else []
    is_output = pieces[0][0] == MESSAGE_START and pieces[0][1].lstrip().startswith(_TOOL)
    return Header(recipient, channel, types[-1] if types else "json", is_output)


class MessageGrammar:
    defers_in_reasoning = False
    closers: Mapping[str, str] = {MESSAGE_START: MESSAGE_END, CHANNEL: MESSAGE_END}

    def __init__(
        self, tokens: Mapping[str, Sequence[Atoms]], reasoning_channels: Sequence[str]
    ) -> None:
        self.spellings = tokens
        self.reasoning_channels = frozenset(reasoning_channels)
        self.markers = MarkerSet(tokens)
        self.ends = self.markers.only(MESSAGE_END)

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Passage | Verdict:
        match opener.lastgroup:
            case "MESSAGE_START" | "CHANNEL":
                return self.open_header(text, opener.end(), opener.lastgroup, final, context)
            case "MESSAGE_END":
                return Passage(is_reasoning=False, pos=opener.end())
        return Verdict.RELEASED

    def open_header(
        self, text: str, start: int, role: str, final: bool, context: Context
    ) -> Opening | Passage | Verdict:
        """Read the header from `start` on, which follows a token of this role."""
        pieces: list[tuple[str, str]] = []
        pos, tokens = start, 0
        while True:
            marker = self.markers.search(text, pos)
            end = marker.start() if marker else len(text)
            # Only legal text counts, so that the verdict does not depend on how much has come.
            words = _WORDS.match(text, pos, min(end, start + context.limits.header_chars))
            is_legal = words is not None and words.end() == end and tokens < _MAX_TOKENS
            tokens += 1
            if is_legal and (marker is None or marker.lastgroup == PARTIAL):
                return Verdict.TRUNCATED if final else Verdict.UNDECIDED
            pieces.append((role, words[0] if words else ""))
            if is_legal and marker and marker.lastgroup in (CHANNEL, CONSTRAIN):
                role, pos = marker.lastgroup, marker.end()
                continue
            header = read_header(pieces)
            if not is_legal or marker is None or marker.lastgroup == MESSAGE_START:
                if header.recipient is not None:
                    return Opening(MessageReader(self, context, header, is_cut=True), pos)
                if not is_legal or marker is None:
                    return Verdict.RELEASED
                pieces.clear()  # the header begins again
            elif marker.lastgroup == BODY:
                return self._open_body(header, marker.end(), context)
            elif marker.lastgroup == MESSAGE_END:
                if header.recipient is not None:
                    return Opening(MessageReader(self, context, header, is_cut=True), pos)
                return Passage(is_reasoning=False, pos=marker.end())
            role, pos = marker.lastgroup or PARTIAL, marker.end()

    def _open_body(self, header: Header, pos: int, context: Context) -> Opening | Passage:
        if header.recipient is None and not header.is_output:
            return Passage(is_reasoning=header.channel in self.reasoning_channels, pos=pos)
        return Opening(MessageReader(self, context, header), pos)


class FirstMessageGrammar:
    """The first message, if it begins with its recipient: the prompt ends inside its header."""

    defers_in_reasoning = False
    closers: Mapping[str, str] = {}

    def __init__(self, messages: MessageGrammar) -> None:
        begins = {atoms[:2]: None for atoms in chain(*messages.spellings.values())}
        self.spellings: Mapping[str, Sequence[Atoms]] = {
            RECIPIENT: [_RECIPIENT + begin for begin in begins]
        }
        self._messages = messages

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Passage | Verdict:
        return self._messages.open_header(text, opener.start(), MESSAGE_START, final, context)


class MessageReader(CallReader):
    """Reads the body of a call, or drops that of an invented output."""

    def __init__(
        self, grammar: MessageGrammar, context: Context, header: Header, *, is_cut: bool = False
    ) -> None:
        """`is_cut`: the header has no end."""
        super().__init__(context, self._begin)
        self._grammar = grammar
        self._header = header
        self._is_cut = is_cut
        self._arguments = StreamedArguments(context, ends=grammar.ends)

    def _begin(self, text: str, pos: int, final: bool) -> int | None:
        output, header = self._context.output, self._header
        name = (header.recipient or "").removeprefix(_TOOL)
        self._state = self._skip
        if header.is_output:
            output.notice(NoticeCode.TOOL_OUTPUT_DROPPED)
        elif self._is_cut:
            output.fail(CallFault.BAD_HEADER, name)
        elif not name:
            output.fail(CallFault.MISSING_NAME)
        else:
            output.start(self._context.toolbox.resolve(name))
            self._state = self._begin_body
        return pos

    def _begin_body(self, text: str, pos: int, final: bool) -> int | None:
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.markers.match(text, start)
        if not final and (start == len(text) or (marker and marker.lastgroup == PARTIAL)):
            return None
        if marker and marker.lastgroup == MESSAGE_END:
            self._context.output.arguments("{}")
            self._end_call()
            return start
        if self._header.type != "json" and text[start : start + 1] not in ("{", '"', ""):
            self._context.output.fail(CallFault.MALFORMED, self._header.type)
            self._state = self._skip
            return start
        self._state = self._read_arguments
        return start

    def _after_call(self, text: str, pos: int, final: bool) -> int | None:
        """Drop what is between the arguments and the end of the message."""
        marker = self._grammar.markers.search(text, pos)
        end = marker.start() if marker else len(text)
        is_far = end - pos > self._context.limits.header_chars
        is_cut = marker is None or marker.lastgroup == PARTIAL
        if is_cut and not is_far and not final:
            return None
        self.closed = True
        if marker and not is_far and marker.lastgroup == MESSAGE_END:
            if noise := text[pos:end].strip():
                self._context.output.notice(NoticeCode.MARKUP_REMOVED, noise)
            return marker.end()
        if marker and is_cut and not text[pos:end].strip() and self._grammar.ends.may_be(marker[0]):
            return len(text)
        return pos

    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of the message."""
        marker = self._grammar.markers.search(text, pos)
        if marker and marker.lastgroup != PARTIAL:
            if marker.lastgroup not in (MESSAGE_END, MESSAGE_START):
                return marker.end()
            self.closed = True
            return marker.end() if marker.lastgroup == MESSAGE_END else marker.start()
        return self._drop_before(marker, text, pos, final)
