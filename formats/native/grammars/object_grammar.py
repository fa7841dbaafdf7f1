"""Grammar of calls as objects in a notation of their own, with bare keys and delimited strings.

    CALL_BEGIN call:NAME{key:DELIMITER text DELIMITER,key:6,key:{…},key:[…]} CALL_END

A delimited value is a string, and streams; it may contain anything but DELIMITER. A bare value is
a number, `true`, `false` or `null`, or a string that lacks its delimiters; it is held until it is
complete. CALL_END may be missing once the object before it is complete.
"""

import json
import re
from collections.abc import Mapping, Sequence
from re import Match

from formats.errors import LimitExceeded
from formats.events import CallFault, NoticeCode
from formats.json_codec import encode_string, escape
from formats.native.grammar import Context, Opening, StateReader, Verdict
from formats.native.grammars.parameter_values import STRING, coerce, json_or_coerced, raw_json
from formats.native.markers import PARTIAL, Atoms, MarkerSet
from formats.toolbox import schema_types

CALL_BEGIN = "CALL_BEGIN"
CALL_END = "CALL_END"
DELIMITER = "DELIMITER"

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"\s*+call\s*+:\s*+([\w.-]{0,128}+)\s*+")
_CUT_NAME = re.compile(r"\s*+(?:\Z|c(?:\Z|a(?:\Z|l(?:\Z|l\s*+\Z))))")
_ANOTHER = re.compile(r"[\s,;]*+(?=call\s*+:)")
_MAX_DEPTH = 64


class ObjectGrammar:
    defers_in_reasoning = False
    closers: Mapping[str, str] = {}

    def __init__(
        self,
        begin: Sequence[Atoms],
        end: Sequence[Atoms],
        delimiter: Sequence[Atoms],
        *,
        converts_strings: bool = False,
    ) -> None:
        """`converts_strings`: delimited values are of any type, by the schema or as JSON."""
        self.spellings: Mapping[str, Sequence[Atoms]] = {
            CALL_BEGIN: begin,
            CALL_END: end,
            DELIMITER: delimiter,
        }
        self.converts_strings = converts_strings
        self.markers = MarkerSet(self.spellings)
        self.in_string = self.markers.only(DELIMITER, CALL_END)
        self.outside = self.markers.only(CALL_BEGIN, CALL_END)
        self.initials = "".join(self.markers.initials)
        self.bare = re.compile(rf"[^,:{{}}\[\]{re.escape(self.initials)}]*")
        """What a key or value without delimiters has between markers and brackets."""

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        if opener.lastgroup != CALL_BEGIN:
            return Verdict.RELEASED
        pos = opener.end()
        name = _NAME.match(text, pos)
        end = name.end() if name else _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        if end - pos > context.limits.header_chars:
            return Verdict.RELEASED
        marker = self.outside.match(text, end)
        if (
            end == len(text)
            or (marker and marker.lastgroup == PARTIAL)
            or (not name and _CUT_NAME.match(text, pos))
        ):
            return Verdict.TRUNCATED if final else Verdict.UNDECIDED
        if text[end] == "{" or (name and marker):
            return Opening(ObjectReader(self, context), pos)
        return Verdict.RELEASED


class ObjectReader(StateReader):
    def __init__(self, grammar: ObjectGrammar, context: Context) -> None:
        super().__init__(context, self._read_name)
        self._grammar = grammar
        self._function = ""
        self._stack: list[str] = []  # the closing brackets of open objects and arrays
        self._types: frozenset[str] = frozenset()  # of the value that is read
        self._held: list[str] = []  # a key, or a value that cannot be sent yet
        self._held_chars = 0
        self._is_key = False
        self._streams = False
        self._tail = ""  # an open string, from its first end marker on

    def _read_name(self, text: str, pos: int, final: bool) -> int | None:
        """Read the name and the opening brace, which `open` or `_after` have found."""
        name = _NAME.match(text, pos)
        end = name.end() if name else _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        if end == len(text) and end - pos <= self._context.limits.header_chars:
            return self._cut_short(text, final)
        self._function = self._context.toolbox.resolve(name[1]) if name else ""
        if text[end : end + 1] != "{":
            return self._fail(end)
        if not self._function:
            return self._fail(end, CallFault.MISSING_NAME)
        self._context.output.start(self._function)
        self._write("{")
        self._stack = ["}"]
        self._state = self._begin_item
        return end + 1

    def _begin_item(self, text: str, pos: int, final: bool) -> int | None:
        """Read the beginning of an object or array, which may be empty."""
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        if start == len(text):
            return self._cut_short(text, final) if final or start == pos else start
        if text[start] == self._stack[-1]:
            return self._pop(start)
        self._begin_key_or_value()
        return start

    def _begin_key_or_value(self) -> None:
        self._held, self._held_chars = [], 0
        self._is_key = self._stack[-1] == "}"
        self._state = self._begin_value
        if not self._is_key:
            self._types = frozenset()

    def _begin_value(self, text: str, pos: int, final: bool) -> int | None:
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.markers.match(text, start)
        if start == len(text) or (marker and marker.lastgroup == PARTIAL):
            return self._cut_short(text, final) if final or start == pos else start
        if marker and marker.lastgroup == DELIMITER:
            self._begin_string()
            return marker.end()
        if marker:
            return self._fail(start)
        if text[start] in "{[" and not self._is_key:
            if len(self._stack) == _MAX_DEPTH:
                return self._fail(start)
            self._write(text[start])
            self._stack.append("}" if text[start] == "{" else "]")
            self._state = self._begin_item
            return start + 1
        self._state = self._read_bare
        return start

    def _begin_string(self) -> None:
        converts = self._grammar.converts_strings and self._types != STRING
        self._streams = not (self._is_key or converts)
        self._tail = ""
        self._state = self._read_string
        if self._streams:
            self._write('"')

    def _read_string(self, text: str, pos: int, final: bool) -> int | None:
        marker = self._grammar.in_string.search(text, pos)
        end = marker.start() if marker and not (final and marker.lastgroup == PARTIAL) else None
        if marker and end == pos:
            match marker.lastgroup:
                case "DELIMITER":
                    self._end_string()
                    return marker.end()
                case "CALL_END":
                    self._add(marker[0], marks=True)
                    return marker.end()
            return None
        if end is None:
            end = len(text)
        if end > pos:
            self._add(text[pos:end])
            return end
        if final and self._tail:
            self.rewind = self._tail
            return self._fail(pos)
        return self._cut_short(text, final)

    def _add(self, text: str, *, marks: bool = False) -> None:
        """Add text of a string. `marks`: it may be the end of the call, if the string has none."""
        if marks or self._tail:
            self._tail += text
            if len(self._tail) > self._context.limits.held_chars:
                self._tail = ""
        if self._streams:
            self._write(escape(text))
        else:
            self._hold(text)

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._held_chars += len(text)
        if self._held_chars > self._context.limits.held_chars:
            raise LimitExceeded("held_chars", self._context.limits.held_chars)

    def _end_string(self) -> None:
        text = "".join(self._held)
        self._state = self._after_key if self._is_key else self._after_value
        if self._is_key:
            self._write_key(text)
        elif self._streams:
            self._write('"')
        else:
            self._write(self._converted(text))

    def _converted(self, text: str) -> str:
        return coerce(text, self._types) if self._types else json_or_coerced(text, STRING)

    def _read_bare(self, text: str, pos: int, final: bool) -> int | None:
        """Read a key or value without delimiters."""
        end = self._grammar.bare.match(text, pos).end()  # type: ignore[union-attr]
        if end > pos:
            self._hold(text[pos:end])
            return end
        if end == len(text):
            return self._cut_short(text, final)
        if text[end] in self._grammar.initials:
            marker = self._grammar.markers.match(text, end)
            if marker and marker.lastgroup == PARTIAL and not final:
                return None
            if marker and marker.lastgroup != PARTIAL:
                return self._fail(end)
            self._hold(text[end])
            return end + 1
        if text[end] == ":" and not self._is_key:
            self._hold(":")
            return end + 1
        word = "".join(self._held).strip()
        written = self._bare_key(word) if self._is_key else self._bare_value(word)
        if written is None:
            return self._fail(end)
        if self._is_key:
            self._write_key(written)
            self._state = self._after_key
        else:
            self._write(written)
            self._state = self._after_value
        return end

    def _bare_key(self, word: str) -> str | None:
        if not word.startswith('"'):
            return word or None
        quoted = raw_json(word)
        return str(json.loads(quoted)) if quoted else None

    def _bare_value(self, word: str) -> str | None:
        if not word:
            return None
        written = raw_json(word)
        if word.startswith('"'):
            return written  # a comma inside the quotes has cut it
        if self._types == STRING or not written:
            return coerce(word, self._types)
        return written

    def _write_key(self, key: str) -> None:
        is_parameter = len(self._stack) == 1
        schema = self._context.toolbox.schema(self._function, key) if is_parameter else None
        self._types = schema_types(schema)
        self._write(encode_string(key).decode() + ": ")

    def _after_key(self, text: str, pos: int, final: bool) -> int | None:
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        if start == len(text):
            return self._cut_short(text, final) if final or start == pos else start
        if text[start] != ":":
            return self._fail(start)
        self._held, self._held_chars, self._is_key = [], 0, False
        self._state = self._begin_value
        return start + 1

    def _after_value(self, text: str, pos: int, final: bool) -> int | None:
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        if start == len(text):
            return self._cut_short(text, final) if final or start == pos else start
        if text[start] == self._stack[-1]:
            return self._pop(start)
        if text[start] != ",":
            return self._fail(start)
        self._write(", ")
        self._begin_key_or_value()
        return start + 1

    def _pop(self, pos: int) -> int:
        self._write(self._stack.pop())
        self._state = self._after_value
        if not self._stack:
            self._context.output.end()
            self._state = self._after
        return pos + 1

    def _after(self, text: str, pos: int, final: bool) -> int | None:
        """Read after a call: another one, or its end; noise before the end is dropped."""
        if another := _ANOTHER.match(text, pos):
            self._state = self._read_name
            return another.end()
        marker = self._grammar.outside.search(text, pos)
        end = marker.start() if marker else len(text)
        is_far = end - pos > self._context.limits.header_chars
        is_cut = marker is None or marker.lastgroup == PARTIAL
        if is_cut and not is_far and not final:
            return None
        noise = text[pos:end].strip()
        if is_cut or is_far:
            self.closed = True
            return pos if noise or marker is None else len(text)
        if marker and marker.lastgroup == CALL_END:
            if noise:
                self._context.output.notice(NoticeCode.MARKUP_REMOVED, noise)
            self._state = self._after_end
            return marker.end()
        self.closed = True
        return pos

    def _after_end(self, text: str, pos: int, final: bool) -> int | None:
        """Drop a repeated end."""
        start = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
        marker = self._grammar.outside.match(text, start)
        if not final and (start == len(text) or (marker and marker.lastgroup == PARTIAL)):
            return None
        if marker and marker.lastgroup == CALL_END:
            return marker.end()
        self.closed = True
        return pos

    def _write(self, json_text: str) -> None:
        self._context.output.arguments(json_text)

    def _fail(self, pos: int, fault: CallFault = CallFault.MALFORMED) -> int:
        self._context.output.fail(fault, self._function)
        self._state = self._skip
        return pos

    def _cut_short(self, text: str, final: bool) -> int | None:
        if not final:
            return None
        self._context.output.fail(CallFault.TRUNCATED, self._function)
        self.closed = True
        return len(text)

    def _skip(self, text: str, pos: int, final: bool) -> int | None:
        """Drop the rest of a broken call."""
        marker = self._grammar.outside.search(text, pos)
        if marker and marker.lastgroup == CALL_END:
            self._state = self._after_end
            return marker.end()
        if marker and marker.lastgroup == CALL_BEGIN:
            self.closed = True
            return marker.start()
        return self._drop_before(marker, text, pos, final)
