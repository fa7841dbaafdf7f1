"""Grammar of calls as JSON envelopes, `{"name": …, "arguments": {…}}`: one, several or an array.

    <tool_call>
    {"name": "get_tide", "arguments": {"harbor": "Moss"}}
    </tool_call>

    [TOOL_CALLS] [{"name": "get_tide", "arguments": {"harbor": "Moss"}}]

An envelope whose name comes before its arguments streams: its arguments are forwarded as they
arrive, and the call ends with the envelope. Any other envelope (arguments first, unknown keys
before them, arguments as a string) is held until it is complete.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from re import Match

import msgspec

from formats.arguments import Arguments, Status
from formats.events import CallFault, NoticeCode
from formats.json_codec import ABSENT, decode, to_bytes, value_or_none
from formats.native.grammar import CallOutput, Context, Opening, StateReader, Verdict
from formats.native.grammars.streamed_arguments import Outcome, StreamedArguments
from formats.native.markers import PARTIAL, Atoms, MarkerSet, literal

BLOCK = "BLOCK"
BLOCK_END = "BLOCK_END"

# Spellings of the keys of an envelope.
NAMES = ("name", "tool_name", "function")
ARGUMENTS = ("arguments", "parameters")
IDS = ("id", "tool_call_id")

ENVELOPE = "ENVELOPE"
_ENVELOPES: Sequence[Atoms] = [
    (r"\{", r"\s{0,32}+", *literal(f'"{key}"')) for key in (*NAMES, *ARGUMENTS, *IDS, "type")
]
_SPACE = re.compile(r"\s*")
_SEPARATORS = re.compile(r"[\s,]*")
# Models write a brace too many before the end of an array.
_SEPARATORS_IN_ARRAY = re.compile(r"[\s,}]*")
_OPENING = re.compile(r"""\{\s*(?:["'}]|\Z)|\[\s*(?:[{\]]|\Z)""")
STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'


def _keys(spellings: Sequence[str]) -> str:
    return rf'"(?:{"|".join(spellings)})"\s*:\s*'


_OTHERS = rf'(?:(?:{_keys(IDS)}(?P<id%d>{STRING})|"type"\s*:\s*{STRING})\s*,\s*){{0,2}}'
ORDERED = re.compile(
    rf"\{{\s*{_OTHERS % 1}{_keys(NAMES)}(?P<name>{STRING})\s*,\s*{_OTHERS % 2}"
    rf"{_keys(ARGUMENTS)}(?=\{{)"
)
# An envelope with a longer name is held until it is complete.
ORDERED_CHARS = 512
# Stands for the part of an ordered envelope before its tail.
_HEAD = '{"name":"","arguments":{}'

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class EnvelopeGrammar:
    closers: Mapping[str, str] = {}

    def __init__(
        self,
        tags: Mapping[str, Sequence[Atoms]],
        *,
        defers_in_reasoning: bool = True,
        separator: str = "",
    ) -> None:
        """`tags`: BLOCK and BLOCK_END. Without BLOCK_END, a block ends with its object or array,
        unless `separator` and another object follow.
        """
        self.spellings: Mapping[str, Sequence[Atoms]] = {BLOCK: tags[BLOCK]}
        self.has_end = BLOCK_END in tags
        self.separator = separator
        self.defers_in_reasoning = defers_in_reasoning
        self.ends = MarkerSet(tags)
        """BLOCK_END, and BLOCK, because BLOCK_END may be missing before it."""
        self.followers = MarkerSet({ENVELOPE: _ENVELOPES, BLOCK: tags[BLOCK]})
        """What may follow a block that nothing closes."""

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        start = _SPACE.match(text, opener.end()).end()  # type: ignore[union-attr]
        opening = _OPENING.match(text, start)
        end = opening.end() if opening else start
        if end - opener.end() > context.limits.header_chars:
            return Verdict.RELEASED
        marker = self.ends.match(text, start)
        if marker and marker.lastgroup == BLOCK_END:
            return Opening(EnvelopeReader(self, context), start)
        is_cut = start == len(text) or (marker is not None and marker.lastgroup == PARTIAL)
        if is_cut or (opening and opening[0].rstrip() in ("{", "[")):
            return Verdict.TRUNCATED if final else Verdict.UNDECIDED
        return Opening(EnvelopeReader(self, context), start) if opening else Verdict.RELEASED


class EnvelopeReader(StateReader):
    def __init__(self, grammar: EnvelopeGrammar, context: Context) -> None:
        super().__init__(context, self._between)
        self._grammar = grammar
        self._depth = 0  # of arrays around the next envelope
        self._arguments: StreamedArguments
        self._tail: Arguments  # scans the envelope after its arguments
        self._captured = CallOutput()  # an envelope that has to be complete before it is sent

    def _between(self, text: str, pos: int, final: bool) -> int | None:
        """Read before an envelope, or after the last one."""
        separators = _SEPARATORS_IN_ARRAY if self._depth else _SEPARATORS
        start = separators.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.ends.match(text, start)
        if not marker:
            match text[start : start + 1]:
                case "{":
                    self._state = self._begin
                    return start
                case "[":
                    self._depth += 1
                    return start + 1
                case "]" if self._depth:
                    self._depth -= 1
                    if "}" in text[pos:start]:
                        self._context.output.notice(NoticeCode.MARKUP_REMOVED, text[pos:start])
                    self._end_value()
                    return start + 1
        return self._leave(text, pos, start, final)

    def _leave(self, text: str, pos: int, start: int, final: bool) -> int | None:
        """Read what is not an envelope: the end of the block, noise before it, or other text."""
        marker = self._grammar.ends.search(text, start)
        if (marker.start() if marker else len(text)) - pos > self._context.limits.header_chars:
            self.closed = True
            return pos
        if marker is None or marker.lastgroup == PARTIAL:
            if not final:
                return None
            self.closed = True
            end = marker.start() if marker else len(text)
            return len(text) if start >= end else pos
        noise = text[start : marker.start()].strip()
        if marker.lastgroup == BLOCK and any(char.isalnum() for char in noise):
            self.closed = True  # prose, and the next block opens without this one's end
            return pos
        if noise:
            self._context.output.notice(NoticeCode.MARKUP_REMOVED, noise)
        if marker.lastgroup == BLOCK_END:
            self._state = self._after_block
            return marker.end()
        self.closed = True
        return marker.start()

    def _end_value(self) -> None:
        """Continue after an envelope or an array."""
        self._state = self._between
        if not self._grammar.has_end and not self._depth:
            self.closed = not self._grammar.separator
            self._state = self._after_value

    def _after_value(self, text: str, pos: int, final: bool) -> int | None:
        """Read after a block that nothing closes: a separator and another envelope, or text."""
        separator = self._grammar.separator
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        is_separated = text.startswith(separator, start)
        if is_separated:
            start = _SPACE.match(text, start + len(separator)).end()  # type: ignore[union-attr]
        if start - pos > self._context.limits.header_chars:
            self.closed = True
            return pos
        follower = self._grammar.followers.match(text, start)
        is_cut = start == len(text) or (follower is not None and follower.lastgroup == PARTIAL)
        if is_cut and not final:
            return None
        if follower and follower.lastgroup == ENVELOPE:
            self._state = self._begin
            return start
        self.closed = True
        return start if is_separated and (start == len(text) or follower) else pos

    def _after_block(self, text: str, pos: int, final: bool) -> int | None:
        """Drop a repeated closing tag."""
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.ends.match(text, start)
        if not final and (start == len(text) or (marker and marker.lastgroup == PARTIAL)):
            return None
        if marker and marker.lastgroup == BLOCK_END:
            return marker.end()
        self.closed = True
        return pos

    def _begin(self, text: str, pos: int, final: bool) -> int | None:
        ordered = ORDERED.match(text, pos, pos + ORDERED_CHARS)
        if ordered and (name := json.loads(ordered["name"])).strip():
            call_id = json.loads(ordered["id1"] or ordered["id2"] or '""')
            self._context.output.start(self._context.toolbox.resolve(name), call_id)
            self._arguments = StreamedArguments(
                self._context, ends=self._grammar.ends, withholds_end=True
            )
            self._state = self._read_arguments
            return ordered.end()
        scan = Arguments(self._context.limits)
        scan.read(text[pos : pos + ORDERED_CHARS])
        if scan.status is Status.OPEN and len(text) - pos < ORDERED_CHARS and not final:
            return None
        self._captured = CallOutput(self._context.limits.held_chars)
        self._arguments = StreamedArguments(
            replace(self._context, output=self._captured), ends=self._grammar.ends
        )
        self._state = self._read_envelope
        return pos

    def _read_arguments(self, text: str, pos: int, final: bool) -> int | None:
        """Forward the arguments of an ordered envelope."""
        if pos == len(text) and not final:
            return None
        outcome, end = self._arguments.read(text, pos, final)
        if outcome is Outcome.COMPLETE:
            self._tail = Arguments(self._context.limits)
            self._tail.read(_HEAD)
            self._state = self._read_tail
        elif outcome is Outcome.FAILED:
            self._give_up()
        return end

    def _read_tail(self, text: str, pos: int, final: bool) -> int | None:
        """Read the envelope after its arguments; the call ends with the envelope."""
        if pos == len(text) and not final:
            return None
        _, end = self._tail.read(text, pos)
        if self._tail.status is Status.COMPLETE:
            self._context.output.arguments("}")
            self._context.output.end()
            self._end_value()
        elif self._tail.status is Status.INVALID or final:
            whole = self._tail.status is Status.INVALID
            self._context.output.fail(CallFault.INVALID_JSON if whole else CallFault.TRUNCATED)
            self._state = self._skip
        return end

    def _read_envelope(self, text: str, pos: int, final: bool) -> int | None:
        """Hold an envelope until it is complete."""
        if pos == len(text) and not final:
            return None
        outcome, end = self._arguments.read(text, pos, final)
        if outcome is Outcome.COMPLETE:
            self._deliver(self._captured.text())
            self._end_value()
        elif outcome is Outcome.FAILED:
            self._context.output.fail_as(self._captured)
            self._give_up()
        return end

    def _deliver(self, envelope: str) -> None:
        output = self._context.output
        fields = decode(_fields, to_bytes(envelope))
        if bytes(fields.get("function", ABSENT)).startswith(b"{"):
            fields = decode(_fields, bytes(fields["function"]))
        name, call_id = (_string(fields, keys) for keys in (NAMES, IDS))
        if not name.strip():
            output.fail(CallFault.MISSING_NAME, envelope)
            return
        values = (value_or_none(fields.get(key, ABSENT)) for key in ARGUMENTS)
        written = next(filter(None, values), b"null").decode()
        arguments = Arguments(self._context.limits)
        forward, _ = arguments.read(written)
        arguments.finish()
        if arguments.status is not Status.COMPLETE:
            output.fail(CallFault.NON_OBJECT_ARGS, written)
            return
        if arguments.decoded_twice:
            output.notice(NoticeCode.ARGUMENTS_DECODED_TWICE)
        output.start(self._context.toolbox.resolve(name), call_id)
        output.arguments(forward)
        output.end()

    def _give_up(self) -> None:
        self.rewind = self._arguments.rewind
        self._state = self._skip

    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of a broken envelope, up to the end of its block."""
        marker = self._grammar.ends.search(text, pos)
        if marker and marker.lastgroup != PARTIAL:
            self._state = self._between
            return marker.start()
        return self._drop_before(marker, text, pos, final)


def _string(fields: Mapping[str, msgspec.Raw], keys: Sequence[str]) -> str:
    """Return the first of these fields that is a string; empty if none is."""
    values = (json.loads(bytes(fields[key])) for key in keys if key in fields)
    return next((value for value in values if isinstance(value, str)), "")
