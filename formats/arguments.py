"""Incremental scanner of one call's JSON arguments, which are forwarded unchanged.

`Arguments.read` consumes characters up to the end of the value and returns the part that may be
sent. Nothing is repaired, and numbers keep their spelling. Only a token of a few characters is
held, except for doubly encoded arguments, which are held whole.

The scanner is a pushdown automaton over a few regular expressions, so a long string costs one match
per chunk, and a native marker inside a string is plain data.
"""

import json
import re
from enum import Enum
from math import isfinite

from formats.errors import DEFAULT_LIMITS, LimitExceeded, Limits


class Status(Enum):
    EMPTY = "only white space so far"
    OPEN = "inside the value"
    COMPLETE = "one whole object"
    INVALID = "not JSON"
    NON_OBJECT = "whole, but not an object"


class _Expect:
    # Not an Enum, whose members are ten times slower to look up: these are used for every token.
    VALUE = "value"
    FIRST_KEY = "key or }"
    KEY = "key"
    COLON = ":"
    FIRST_ITEM = "value or ]"
    NEXT = ", or the closer"
    STRING = "rest of a string"
    SCALAR = "rest of a number or literal"
    END = "nothing"


_EMPTY, _OPEN = Status.EMPTY, Status.OPEN
_SPACE = re.compile(r"[ \t\r\n]*")
# A run of string characters and escapes, up to a quote, a control character or an escape that is
# incomplete at the end of the chunk.
_STRING = re.compile(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_SCALAR = re.compile(r"[-+.0-9A-Za-z]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
# The beginning of a number or literal. Only this is forwarded: clients parse arguments as they
# arrive, and the official SDK raises an exception of its own for anything that cannot become JSON.
_SCALAR_BEGIN = re.compile(
    r"t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|n(?:u(?:ll?)?)?"
    r"|-?(?:(?:0|[1-9][0-9]*+)(?:\.(?:[0-9]++(?:[eE][-+]?[0-9]*+)?)?|[eE][-+]?[0-9]*+)?)?"
)
_CUT_NUMBER = re.compile(r"-|-?(?:0|[1-9][0-9]*)(?:\.|(?:\.[0-9]+)?[eE][-+]?)")
_LITERALS = frozenset({"true", "false", "null"})
_VALUES = frozenset({_Expect.VALUE, _Expect.FIRST_ITEM})
_KEYS = frozenset({_Expect.KEY, _Expect.FIRST_KEY})
_STRINGS = _VALUES | _KEYS
_FIRST = {"}": _Expect.FIRST_KEY, "]": _Expect.FIRST_ITEM}
# Longer numbers are not intended; Python's parser rejects integers of more than 4,300 digits.
_SCALAR_CHARS = 1024


def _is_number(scalar: str) -> bool:
    """Return whether this is a finite JSON number; JavaScript reads 1e400 as Infinity."""
    if not _NUMBER.fullmatch(scalar):
        return False
    return (len(scalar) < 300 and "e" not in scalar.lower()) or isfinite(float(scalar))


def _is_cut(scalar: str) -> bool:
    """Return whether more characters could make this a number or literal, and it is not one yet."""
    cut_literal = scalar not in _LITERALS and any(word.startswith(scalar) for word in _LITERALS)
    return cut_literal or _CUT_NUMBER.fullmatch(scalar) is not None


class Arguments:
    unread = ""
    """The end of earlier texts that was not read: none, for JSON."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.status = Status.EMPTY
        self.decoded_twice = False
        self.string_start: int | None = None
        """Position at which the last read opened a string; None if it did not."""
        self._limits = limits
        self._expect: str = _Expect.VALUE
        self._stack: list[str] = []  # the closing brackets still to come
        self._is_key = False
        self._scalar = ""  # an unfinished number or literal
        self._escape = ""  # an unfinished escape, forwarded once it is complete
        self._first = "{"  # the first character of the value
        self._held: list[str] = []  # the value so far, if it is a string
        self._held_chars = 0

    @property
    def in_string(self) -> bool:
        return self._expect is _Expect.STRING

    @property
    def has_pending(self) -> bool:
        """True if something was read that is not forwarded yet."""
        return bool(self._escape) or (self._first == '"' and self.status is Status.OPEN)

    @property
    def is_plain(self) -> bool:
        """True if the text is a JSON object, not an object encoded as a string."""
        return self._first == "{"

    def continues_string(self, text: str) -> bool:
        """Return whether all of `text` is inside the open string, so that it may be forwarded."""
        return (
            self._expect is _Expect.STRING
            and self._first == "{"
            and not self._escape
            and _STRING.fullmatch(text) is not None
        )

    def read(self, text: str, pos: int = 0) -> tuple[str, int]:
        """Return the text to forward, and the position in `text` where reading stopped.

        Reading stops at the end of `text`, after a complete value, or at an invalid character;
        `status` tells which.
        """
        if self.status is _EMPTY:
            pos = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
            if pos == len(text):
                return "", pos
            self._first = text[pos]
            self.status = _OPEN
        start, carried = pos, self._escape
        self.string_start = None
        if self.status is _OPEN:
            pos = self._scan(text, pos)
        if self._first == "{":
            return self._without_cut(carried + text[start:pos]), pos
        if self._first == '"':
            return self._hold(text[start:pos]), pos
        return "", pos

    def finish(self) -> None:
        """Complete a number or literal at the end of input; one that is cut off stays open."""
        if self.status is Status.OPEN and self._expect is _Expect.SCALAR:
            if not _is_cut(self._scalar):
                self._end_scalar()

    def _without_cut(self, forward: str) -> str:
        """Return `forward` without the unfinished escape at its end."""
        return forward.removesuffix(self._escape) if self._escape else forward

    def _hold(self, text: str) -> str:
        """Hold a part of a string; once it is complete, return the object encoded in it."""
        self._held.append(text)
        self._held_chars += len(text)
        if self._held_chars > self._limits.held_chars:
            raise LimitExceeded("held_chars", self._limits.held_chars)
        if self.status is not Status.NON_OBJECT:
            return ""
        inner = Arguments(self._limits)
        encoded = json.loads("".join(self._held))
        forward, end = inner.read(encoded)
        if inner.status is Status.EMPTY:
            self.status = Status.COMPLETE
        elif inner.status is Status.COMPLETE and not encoded[end:].strip():
            self.status = Status.COMPLETE
            self.decoded_twice = True
            return forward
        return ""

    def _scan(self, text: str, pos: int) -> int:
        while self.status is _OPEN and pos < len(text):
            if self._expect is _Expect.STRING:
                pos = self._scan_string(text, pos)
            elif self._expect is _Expect.SCALAR:
                pos = self._scan_scalar(text, pos)
            else:
                pos = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
                if pos < len(text):
                    pos = self._scan_token(text, pos)
        return pos

    def _scan_token(self, text: str, pos: int) -> int:
        char, expect = text[pos], self._expect
        if char == '"' and expect in _STRINGS:
            self._is_key = expect in _KEYS
            self.string_start = pos
            self._expect = _Expect.STRING
        elif char in "{[" and expect in _VALUES and len(self._stack) < self._limits.json_depth:
            self._stack.append("}" if char == "{" else "]")
            self._expect = _Expect.FIRST_KEY if char == "{" else _Expect.FIRST_ITEM
        elif char in "}]" and (expect is _Expect.NEXT or expect is _FIRST[char]):
            if self._stack[-1] != char:
                self.status = Status.INVALID
                return pos
            self._stack.pop()
            self._end_value()
        elif char == "," and expect is _Expect.NEXT:
            self._expect = _Expect.KEY if self._stack[-1] == "}" else _Expect.VALUE
        elif char == ":" and expect is _Expect.COLON:
            self._expect = _Expect.VALUE
        elif expect in _VALUES and _SCALAR.fullmatch(char):
            self._expect = _Expect.SCALAR
            return pos
        else:
            self.status = Status.INVALID
            return pos
        return pos + 1

    def _scan_string(self, text: str, pos: int) -> int:
        while self._escape and pos < len(text):
            escape = self._escape + text[pos]
            if _ESCAPE.fullmatch(escape):
                self._escape = ""
            elif _ESCAPE_BEGUN.fullmatch(escape):
                self._escape = escape
            else:
                self.status = Status.INVALID
                return pos
            pos += 1
        pos = _STRING.match(text, pos).end()  # type: ignore[union-attr]
        if pos == len(text):
            return pos
        if text[pos] == '"':
            if self._is_key:
                self._expect = _Expect.COLON
            else:
                self._end_value()
            return pos + 1
        if text[pos] == "\\":
            self._escape = _ESCAPE_BEGUN.match(text, pos)[0]  # type: ignore[index]
            pos += len(self._escape)
        if pos < len(text):
            self.status = Status.INVALID
        return pos

    def _scan_scalar(self, text: str, pos: int) -> int:
        end = _SCALAR.match(text, pos).end()  # type: ignore[union-attr]
        self._scalar += text[pos:end]
        legal = _SCALAR_BEGIN.match(self._scalar, 0, _SCALAR_CHARS).end()  # type: ignore[union-attr]
        if legal < len(self._scalar):
            self.status = Status.INVALID
            return end - (len(self._scalar) - legal)
        if end < len(text):
            self._end_scalar()
        return end

    def _end_scalar(self) -> None:
        scalar, self._scalar = self._scalar, ""
        if scalar not in _LITERALS and not _is_number(scalar):
            self.status = Status.INVALID
            return
        self._end_value()
        if scalar == "null" and self.status is Status.NON_OBJECT:
            self.status = Status.COMPLETE  # clients read null as no arguments

    def _end_value(self) -> None:
        if self._stack:
            self._expect = _Expect.NEXT
        else:
            self._expect = _Expect.END
            self.status = Status.COMPLETE if self._first == "{" else Status.NON_OBJECT
