"""Reader of calls as JSON envelopes, `{"name": …, "arguments": {…}}`: one, several or an array.

    <tool_call>
    {"name": "get_tide", "arguments": {"harbor": "Moss"}}
    </tool_call>

An envelope in this order streams: its arguments are forwarded as they arrive, and the call ends
with the envelope. Any other envelope (arguments first, other keys before them, arguments as a
string) is held until it is complete.
"""

import json
import re
from dataclasses import replace

import msgspec

from formats.arguments import Arguments, Status
from formats.events import CallFault, NoticeCode
from formats.json_codec import ABSENT, decode, to_bytes, value_or_none
from formats.native.grammar import CallOutput, Context, Opening, Verdict
from formats.native.markers import PARTIAL, MarkerSet
from formats.native.streamed_arguments import Outcome, StreamedArguments

_SPACE = re.compile(r"\s*")
_SEPARATORS = re.compile(r"[\s,\[\]]*")
_OBJECT = re.compile(r"""\{\s*(?:["'}]|\Z)|\[\s*(?:\{|\Z)""")
_STRING = r'("(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))+")'
_ORDERED = re.compile(
    rf'\{{\s*"name"\s*:\s*{_STRING}\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{{)'
)
# An envelope with a longer name is held until it is complete.
_ORDERED_CHARS = 512
# Stands for the part of an ordered envelope before its tail.
_HEAD = '{"name":"","arguments":{}'

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def open_envelope(
    text: str, pos: int, final: bool, context: Context, ends: MarkerSet
) -> Opening | Verdict:
    """Decide whether the block content that starts at `pos` is an envelope."""
    opening = _OBJECT.match(text, pos)
    if not opening:
        return Verdict.RELEASED
    if opening.end() - pos > context.limits.header_chars:
        return Verdict.RELEASED
    if len(opening[0].rstrip()) == 1:  # the text ends after the bracket
        return Verdict.TRUNCATED if final else Verdict.UNDECIDED
    return Opening(EnvelopeReader(context, ends), pos)


class EnvelopeReader:
    def __init__(self, context: Context, ends: MarkerSet) -> None:
        self.closed = False
        self.rewind = ""
        self._context = context
        self._ends = ends  # BLOCK_END, and BLOCK, because BLOCK_END may be missing before it
        self._arguments: StreamedArguments
        self._tail: Arguments  # scans the envelope after its arguments
        self._captured = CallOutput()  # an envelope that has to be complete before it is sent
        self._state = self._between

    def step(self, text: str, pos: int, final: bool) -> int | None:
        return self._state(text, pos, final)

    def _between(self, text: str, pos: int, final: bool) -> int | None:
        """Read before an envelope, or after the last one."""
        start = _SEPARATORS.match(text, pos).end()  # type: ignore[union-attr]
        if text[start : start + 1] == "{":
            self._state = self._begin
            return start
        marker = self._ends.search(text, pos)
        if (marker.start() if marker else len(text)) - pos > self._context.limits.header_chars:
            self.closed = True
            return pos
        if marker is None or marker.lastgroup == PARTIAL:
            if not final:
                return None
            self.closed = True
            end = marker.start() if marker else len(text)
            return len(text) if start >= end else pos
        if noise := text[start : marker.start()].strip():
            self._context.output.notice(NoticeCode.MARKUP_REMOVED, noise)
        if marker.lastgroup == "BLOCK_END":
            self._state = self._after_block
            return marker.end()
        self.closed = True  # the next block opens without this one's end
        return marker.start()

    def _after_block(self, text: str, pos: int, final: bool) -> int | None:
        """Drop a repeated closing tag."""
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._ends.match(text, start)
        if not final and (start == len(text) or (marker and marker.lastgroup == PARTIAL)):
            return None
        if marker and marker.lastgroup == "BLOCK_END":
            return marker.end()
        self.closed = True
        return pos

    def _begin(self, text: str, pos: int, final: bool) -> int | None:
        ordered = _ORDERED.match(text, pos, pos + _ORDERED_CHARS)
        if ordered:
            self._context.output.start(self._context.toolbox.resolve(json.loads(ordered[1])))
            self._arguments = StreamedArguments(self._context, ends=self._ends, withholds_end=True)
            self._state = self._read_arguments
            return ordered.end()
        scan = Arguments(self._context.limits)
        scan.read(text[pos : pos + _ORDERED_CHARS])
        if scan.status is Status.OPEN and len(text) - pos < _ORDERED_CHARS and not final:
            return None
        self._captured = CallOutput(self._context.limits.held_chars)
        self._arguments = StreamedArguments(
            replace(self._context, output=self._captured), ends=self._ends
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
            self._state = self._between
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
            self._state = self._between
        elif outcome is Outcome.FAILED:
            self._context.output.events += self._captured.faults()
            self._give_up()
        return end

    def _deliver(self, envelope: str) -> None:
        output = self._context.output
        fields = decode(_fields, to_bytes(envelope))
        name = json.loads(bytes(fields.get("name", b"null")))
        if not isinstance(name, str) or not name.strip():
            output.fail(CallFault.MISSING_NAME, envelope)
            return
        values = [value_or_none(fields.get(key, ABSENT)) for key in ("arguments", "parameters")]
        written = (values[0] or values[1] or b"null").decode()
        arguments = Arguments(self._context.limits)
        forward, _ = arguments.read(written)
        arguments.finish()
        if arguments.status is not Status.COMPLETE:
            output.fail(CallFault.NON_OBJECT_ARGS, written)
            return
        if arguments.decoded_twice:
            output.notice(NoticeCode.ARGUMENTS_DECODED_TWICE)
        output.start(self._context.toolbox.resolve(name))
        output.arguments(forward)
        output.end()

    def _give_up(self) -> None:
        self.rewind = self._arguments.rewind
        self._state = self._skip

    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of a broken envelope, up to the end of its block."""
        marker = self._ends.search(text, pos)
        if marker and marker.lastgroup != PARTIAL:
            self._state = self._between
            return marker.start()
        if final:
            self.closed = True
            return len(text)
        end = marker.start() if marker else len(text)
        return end if end > pos else None
