"""Grammar of calls that are JSON envelopes at the start of the answer, without any marker.

    {"name": "get_tide", "parameters": {"harbor": "Moss"}}; {"name": "get_wind", "parameters": {}}

An answer may be JSON without being a call, so an object counts only if its name is followed by
arguments, or if the name is declared. As soon as that is impossible, it is text. An object whose
keys come in another order is held until it is complete.
"""

import json
import re
from collections.abc import Mapping, Sequence
from re import Match

import msgspec

from formats.arguments import Arguments, Status
from formats.events import CallFault, NoticeCode
from formats.json_codec import decode, to_bytes
from formats.native.grammar import Context, Opening, Verdict
from formats.native.grammars.json_envelope import (
    ARGUMENTS,
    ENVELOPE,
    IDS,
    NAMES,
    ORDERED,
    ORDERED_CHARS,
    STRING,
    EnvelopeGrammar,
    EnvelopeReader,
)
from formats.native.markers import PARTIAL, Atoms

OBJECT = "OBJECT"

_KNOWN = frozenset((*NAMES, *ARGUMENTS, *IDS, "type"))
_OTHERS = rf'(?:"(?:type|{"|".join(IDS)})"\s*:\s*{STRING}\s*,\s*){{0,2}}'
_NAMED = re.compile(rf'\{{\s*{_OTHERS}"(?:{"|".join(NAMES)})"\s*:\s*(?P<name>{STRING})')
_CUT_STRING = r'"(?:[^"\\\x00-\x1f]|\\.)*+\\?'
_CUT_NAMED = re.compile(
    rf'\{{\s*{_OTHERS}(?:"\w{{0,16}}+(?:"\s*(?::\s*(?:{STRING}\s*|(?P<name>{_CUT_STRING}))?)?)?)?\Z'
)
_CUT_ORDER = re.compile(
    rf'\s*(?:,\s*{_OTHERS}(?:"\w{{0,16}}+(?:"\s*(?::\s*(?:{STRING}\s*|{_CUT_STRING})?)?)?)?)?\Z'
)
# The order of keys is unknown, or the function is an object with the name and the arguments.
_HELD = re.compile(
    rf'\{{\s*(?:"(?:{"|".join(ARGUMENTS)})"|(?:"type"\s*:\s*"function"\s*,\s*)?"function"\s*:\s*\{{)'
)
_ARGUMENTS = re.compile(r'\{\s{0,32}+(?:["}]|(?P<cut>\Z))')

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BareObjectsGrammar:
    """Only for the start of the text."""

    spellings: Mapping[str, Sequence[Atoms]] = {
        OBJECT: [(r"\{",), (r"\[", r"\s{0,32}+", r"\{")],
    }
    closers: Mapping[str, str] = {}
    defers_in_reasoning = True

    def __init__(self, envelopes: EnvelopeGrammar) -> None:
        """`envelopes` reads the objects."""
        self._envelopes = envelopes

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        start = opener.end() - 1
        end = start + ORDERED_CHARS
        cut_off = Verdict.RELEASED if final or len(text) >= end else Verdict.UNDECIDED
        if ordered := ORDERED.match(text, start, end):
            arguments = _ARGUMENTS.match(text, ordered.end())
            if arguments and arguments["cut"] is not None:
                return Verdict.TRUNCATED if final else Verdict.UNDECIDED
            if arguments:
                return Opening(EnvelopeReader(self._envelopes, context), opener.start())
        key = self._envelopes.followers.match(text, start)
        if key is None or key.lastgroup != ENVELOPE:
            return cut_off if key and key.lastgroup == PARTIAL else Verdict.RELEASED
        named = _NAMED.match(text, start, end)
        if named is None and (cut := _CUT_NAMED.match(text, start, end)):
            prefix = (cut["name"] or "")[1:]
            return self._truncated(prefix, context, is_whole=False) if final else cut_off
        name = json.loads(named["name"]) if named else ""
        if named and (final or cut_off is Verdict.UNDECIDED):
            if _CUT_ORDER.match(text, named.end(), end):
                return self._truncated(name, context, is_whole=True) if final else cut_off
        is_declared = context.declares(name)
        if opener.start() == start and (is_declared or _HELD.match(text, start)):
            reader = HeldObjectReader(self._envelopes, context, is_call=is_declared)
            return Opening(reader, start)
        return Verdict.RELEASED

    def _truncated(self, name: str, context: Context, *, is_whole: bool) -> Verdict:
        """Decide an object of which the text has only the name, or the beginning of one."""
        if not name:
            return Verdict.RELEASED
        tools = context.toolbox
        fits = context.declares(name) if is_whole else tools.has_prefix(name)
        return Verdict.TRUNCATED if fits or tools.is_empty else Verdict.RELEASED


class HeldObjectReader:
    """Holds an object until it is complete, and then reads it as a call or leaves it as text."""

    def __init__(self, envelopes: EnvelopeGrammar, context: Context, *, is_call: bool) -> None:
        self.closed = False
        self.rewind = ""
        self._context = context
        self._envelopes = EnvelopeReader(envelopes, context)
        self._is_call = is_call  # if it is cut off
        self._scan: Arguments | None = Arguments(context.limits)
        self._held: list[str] = []
        self._held_chars = 0

    def step(self, text: str, pos: int, final: bool) -> int | None:
        if self._scan is None:
            end = self._envelopes.step(text, pos, final)
            self.closed = self._envelopes.closed
            self.rewind, self._envelopes.rewind = self._envelopes.rewind, ""
            return end
        return self._hold(self._scan, text, pos, final)

    def _hold(self, scan: Arguments, text: str, pos: int, final: bool) -> int | None:
        if pos == len(text) and not final:
            return None
        _, read = scan.read(text, pos)
        self._held.append(text[pos:read])
        self._held_chars += read - pos
        has_room = self._held_chars <= self._context.limits.held_chars
        if scan.status is Status.OPEN and has_room and not final:
            return read
        self.rewind = "".join(self._held)
        self._held, self._scan = [], None
        if scan.status is Status.COMPLETE and has_room and self._is_envelope(self.rewind):
            return read
        self.closed = True
        if scan.status is Status.OPEN and has_room and self._is_call:
            self._context.output.fail(CallFault.TRUNCATED, self.rewind)
            self.rewind = ""
        else:
            self._context.output.notice(NoticeCode.CANDIDATE_RELEASED, self.rewind)
        return read

    def _is_envelope(self, written: str) -> bool:
        fields = decode(_fields, to_bytes(written))
        keys = set(fields)
        if "function" in fields and bytes(fields["function"]).startswith(b"{"):
            fields = decode(_fields, bytes(fields["function"]))
            keys |= fields.keys()
        name = next((json.loads(bytes(fields[key])) for key in NAMES if key in fields), None)
        is_known = keys <= _KNOWN
        has_arguments = not fields.keys().isdisjoint(ARGUMENTS)
        if not isinstance(name, str):
            return False
        if self._context.declares(name):
            return has_arguments or is_known
        return has_arguments and is_known
