"""Incremental reader of keyword arguments with literal values, which are forwarded as JSON.

    get_tide(harbor="Moss", days=[1, 2], deep={'a': None})

`PythonArguments` reads from after the opening parenthesis up to the closing one, and has the
interface of `formats.arguments.Arguments`. It understands strings with their escapes, numbers,
`True`, `False`, `None` and their JSON spellings, lists and dicts; nothing is ever evaluated, and
anything else is invalid. A line break inside a quoted string is accepted. Strings stream; only a
token of a few characters is held.
"""

import json
import re
from math import isfinite

from formats.arguments import Status
from formats.errors import DEFAULT_LIMITS, Limits
from formats.json_codec import escape

_SPACE = re.compile(r"\s*")
_KEYWORD = re.compile(r"(\w{1,128}+)\s{0,64}+=(?=[^=])")
_KEYWORD_BEGUN = re.compile(r"\w{1,128}+\s{0,64}+=?\Z")
_QUOTE = re.compile(r"""([rRuU]?)("{3}|'{3}|"(?="?[^"])|'(?='?[^']))""")
_QUOTE_BEGUN = re.compile(r"""[rRuU]?(?:"{1,2}|'{1,2})?\Z""")
_WORD = re.compile(r"[\w.+-]*")
_CODE = r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|[^xuUN0-7\r]"
_ESCAPES = re.compile(rf"\\(?:{_CODE}|[0-7]{{1,3}}|\r\n?)", re.DOTALL)
# The same, if the text goes on with what belongs to it.
_ESCAPE = rf"\\(?:{_CODE}|[0-7]{{3}}|[0-7]{{1,2}}(?=[^0-7])|\r\n|\r(?=[^\n]))"
_ESCAPE_BEGUN = re.compile(
    r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-7]{1,2}|\r)?\Z"
)
_RAW_ESCAPE = r"\\."


def _inside(quote: str, escapes: str) -> re.Pattern[str]:
    """Return a pattern for a string up to its end, or to an escape that is cut off or invalid."""
    char = quote[0]
    part = rf"[^{char}\\]++" if quote == char else rf"[^{char}\\]++|{char}{{1,2}}(?=[^{char}])"
    return re.compile(rf"(?:{part}|{escapes})*+", re.DOTALL)


_INSIDE = {
    (quote, is_raw): _inside(quote, _RAW_ESCAPE if is_raw else _ESCAPE)
    for quote in ('"', "'", '"' * 3, "'" * 3)
    for is_raw in (False, True)
}
# Needs no escape in JSON, and ends no string of Python.
_PLAIN = re.compile(r"[^\"'\\\x00-\x1f]*+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DIGIT_SEPARATOR = re.compile(r"(?<=[0-9])_(?=[0-9])")
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]{1,64}")
_NAMED_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\n": "",
    "\r": "",
    "\r\n": "",
}
_WORDS = {
    "True": "true",
    "true": "true",
    "False": "false",
    "false": "false",
    "None": "null",
    "null": "null",
}
# Longer numbers are not intended; Python reads no integers of more than 4,300 digits.
_WORD_CHARS = 1024


class _Expect:
    KEYWORD = "keyword or )"
    KEY = "key or }"
    COLON = ":"
    ITEM = "value or ]"
    VALUE = "value"
    NEXT = ", or the closer"
    STRING = "rest of a string"


_AFTER_COMMA = {")": _Expect.KEYWORD, "}": _Expect.KEY, "]": _Expect.ITEM}
_VALUES = frozenset({_Expect.VALUE, _Expect.ITEM})


class PythonArguments:
    decoded_twice = False

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.status = Status.EMPTY
        self.string_start: int | None = None
        """Position at which the last read opened a string; None if it did not."""
        self.unread = ""
        """The end of earlier texts that is a part of what is invalid."""
        self._limits = limits
        self._expect: str = _Expect.KEYWORD
        self._stack = [")"]  # the closing brackets still to come
        self._separator = ""  # written before the next item
        self._quote = ("", False)  # of the open string, and whether escapes are not read
        self._is_key = False
        self._cut = ""  # a token that the text ends in
        self._out: list[str] = []

    def continues_string(self, text: str) -> bool:
        """Return whether all of `text` is inside the open string, and the same in JSON."""
        return (
            self._expect is _Expect.STRING and not self._cut and _PLAIN.fullmatch(text) is not None
        )

    def read(self, text: str, pos: int = 0) -> tuple[str, int]:
        """Return the JSON to forward, and the position in `text` where reading stopped.

        Reading stops at the end of `text`, after the closing parenthesis, or at an invalid
        character; `status` tells which.
        """
        start, shift = pos, 0
        if self._cut:
            shift = pos - len(self._cut)
            text, pos, self._cut = self._cut + text[pos:], 0, ""
        self.string_start = None
        if self.status is Status.EMPTY:
            self.status = Status.OPEN
            self._out.append("{")
        while self.status is Status.OPEN and pos < len(text):
            if self._expect is _Expect.STRING:
                pos = self._read_string(text, pos)
            else:
                pos = _SPACE.match(text, pos).end()  # type: ignore[union-attr]
                if pos < len(text):
                    pos = self._read_token(text, pos)
        if self.string_start is not None:
            self.string_start = max(self.string_start + shift, start)
        forward, self._out = "".join(self._out), []
        if pos + shift < start:
            self.unread = text[pos : -shift + start]
        return forward, max(pos + shift, start)

    def finish(self) -> None:
        """The text has ended: a call without its parenthesis is never complete."""

    def _hold(self, text: str, pos: int) -> int:
        """Read the token that the text ends in again, when more of it is there."""
        if len(text) - pos > _WORD_CHARS:
            return self._refuse(pos)
        self._cut = text[pos:]
        return len(text)

    def _refuse(self, pos: int) -> int:
        self.status = Status.INVALID
        return pos

    def _read_token(self, text: str, pos: int) -> int:
        char, expect = text[pos], self._expect
        if char in ")}]" and (expect is _Expect.NEXT or expect is _AFTER_COMMA[char]):
            return self._close(char, pos)
        if expect is _Expect.NEXT and char == ",":
            self._expect = _AFTER_COMMA[self._stack[-1]]
            self._separator = ", "
            return pos + 1
        if expect is _Expect.COLON and char == ":":
            self._out.append(": ")
            self._expect = _Expect.VALUE
            return pos + 1
        if expect is _Expect.KEYWORD:
            return self._read_keyword(text, pos)
        if char in "{[" and expect in _VALUES and len(self._stack) < self._limits.json_depth:
            self._write(char)
            self._stack.append("}" if char == "{" else "]")
            self._expect = _AFTER_COMMA[self._stack[-1]]
            self._separator = ""
            return pos + 1
        if expect in _VALUES or expect is _Expect.KEY:
            return self._read_scalar(text, pos)
        return self._refuse(pos)

    def _close(self, char: str, pos: int) -> int:
        if self._stack.pop() != char:
            return self._refuse(pos)
        self._out.append("}" if char == ")" else char)
        if self._stack:
            self._expect = _Expect.NEXT
        else:
            self.status = Status.COMPLETE
        return pos + 1

    def _write(self, json_text: str) -> None:
        self._out += (self._separator, json_text)
        self._separator = ""

    def _read_keyword(self, text: str, pos: int) -> int:
        keyword = _KEYWORD.match(text, pos)
        if keyword is None:
            return self._hold(text, pos) if _KEYWORD_BEGUN.match(text, pos) else self._refuse(pos)
        self._write(json.dumps(keyword[1], ensure_ascii=False) + ": ")
        self._expect = _Expect.VALUE
        return keyword.end()

    def _read_scalar(self, text: str, pos: int) -> int:
        self._is_key = self._expect is _Expect.KEY
        if quote := _QUOTE.match(text, pos):
            self._quote = (quote[2], quote[1] in ("r", "R"))
            self._expect = _Expect.STRING
            self.string_start = pos
            self._write('"')
            return quote.end()
        if _QUOTE_BEGUN.match(text, pos):
            return self._hold(text, pos)
        end = _WORD.match(text, pos).end()  # type: ignore[union-attr]
        if end == len(text):
            return self._hold(text, pos)
        if (value := _scalar(text[pos:end])) is None:
            return self._refuse(pos)
        self._write(f'"{value}"' if self._is_key else value)
        self._end_value()
        return end

    def _read_string(self, text: str, pos: int) -> int:
        quote, is_raw = self._quote
        end = _INSIDE[self._quote].match(text, pos).end()  # type: ignore[union-attr]
        inside = text[pos:end]
        self._out.append(escape(inside) if is_raw else _translated(inside))
        if text.startswith(quote, end):
            self._out.append('"')
            self._end_value()
            return end + len(quote)
        if end == len(text):
            return end
        # The end of the text cuts off an escape, or quotes of which three end the string.
        if _ESCAPE_BEGUN.match(text, end) or (text[end] == quote[0] and len(text) - end < 3):
            return self._hold(text, end)
        return self._refuse(end)

    def _end_value(self) -> None:
        self._expect = _Expect.COLON if self._is_key else _Expect.NEXT
        self._is_key = False


def _scalar(word: str) -> str | None:
    """Return a number or constant of Python as JSON text; None if it is neither."""
    if word in _WORDS:
        return _WORDS[word]
    digits = _DIGIT_SEPARATOR.sub("", word)
    if _HEXADECIMAL.fullmatch(digits):
        return str(int(digits, 16))
    if len(word) > _WORD_CHARS or not _NUMBER.fullmatch(digits):
        return None
    if digits.lstrip("+-").isdigit():
        return str(int(digits))
    number = float(digits)
    if not isfinite(number):
        return None
    return digits if _JSON_NUMBER.fullmatch(digits) else repr(number)


def _translated(text: str) -> str:
    """Return the inside of a string of Python as that of a JSON string."""
    if "\\" not in text:
        return escape(text)
    parts: list[str] = []
    done = 0
    for match in _ESCAPES.finditer(text):
        parts += (escape(text[done : match.start()]), _escaped(match[0][1:]))
        done = match.end()
    parts.append(escape(text[done:]))
    return "".join(parts)


def _escaped(code: str) -> str:
    """Return the JSON spelling of the escape `code`, without its backslash."""
    if code in _NAMED_ESCAPES:
        return escape(_NAMED_ESCAPES[code])
    if code[0] in "xuU":
        return json.dumps(chr(int(code[1:], 16)))[1:-1]
    if code.isdigit():
        return json.dumps(chr(int(code, 8)))[1:-1]
    return escape(code if code in "\\'\"" else "\\" + code)
