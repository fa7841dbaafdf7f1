"""Converts parameter values of tag formats, which are text, to the types of the tool's schema.

The first type that fits wins, in the order null, integer, number, boolean, object or array, string.
A value that fits none stays the string that the model wrote, so that the client can report it.
"""

import ast
import json
import re
from collections.abc import Callable, Collection
from functools import partial

from formats.errors import LimitExceeded
from formats.json_codec import escape
from formats.native.grammar import Context

STRING = frozenset({"string"})

_INTEGER = re.compile(r"[+-]?[0-9]{1,1024}")
# Numbers that JSON does not allow: with a plus sign, or without a digit on one side of the point.
_LOOSE_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,2})?"
)
_BOOLEANS = {"true": "true", "1": "true", "false": "false", "0": "false"}
# Python's compiler parses these, and its memory grows with nesting.
_LITERAL_CHARS = 64 * 1024


class Value:
    """One parameter's value: a string streams as it arrives, any other type is held."""

    def __init__(
        self,
        context: Context,
        key: str,
        convert: Callable[[str], str] | None,
        *,
        strips: bool,
        may_wrap: bool = False,
    ) -> None:
        """`convert` returns the value as JSON; None for a string. `may_wrap`: the value may be all
        arguments of the call, so nothing is written before `write`."""
        self.may_wrap = may_wrap
        self._context = context
        self._convert = convert or partial(coerce, types=STRING)
        self._strips = strips  # whether to drop a newline before the first character
        self._key = key
        self._streams = convert is None and not may_wrap
        self._held: list[str] = []
        self._held_chars = 0
        if self._streams:
            context.output.arguments(key + '"')

    def add(self, text: str) -> None:
        if self._strips:
            self._strips = False
            text = text.removeprefix("\n")
        if self._streams:
            self._context.output.arguments(escape(text))
            return
        self._held.append(text)
        self._held_chars += len(text)
        if self._held_chars > self._context.limits.held_chars:
            raise LimitExceeded("held_chars", self._context.limits.held_chars)

    def write(self) -> None:
        """Write the rest of the value, which is complete."""
        if self._streams:
            self._context.output.arguments('"')
            return
        self._context.output.arguments(self._key + self._convert("".join(self._held)))

    def unwrap(self, declared: Collection[str]) -> str | None:
        """Return the value if it is an object of these parameters only, else None."""
        word = "".join(self._held).strip()
        written = _json(word, (dict,)) or _literal(word, (dict,))
        return written if written and json.loads(written).keys() <= set(declared) else None


def coerce(value: str, types: frozenset[str]) -> str:
    """Convert `value` to JSON text of one of `types`."""
    word = value.strip()
    # A schema without null: only in a string can the word mean itself.
    if word.lower() == "null" and ("null" in types or "string" not in types):
        return "null"
    if types & {"integer", "number"} and _INTEGER.fullmatch(word):
        return str(int(word))
    if "number" in types and (number := _json(word, (int, float)) or _loose(word)):
        return number
    if "boolean" in types and word.lower() in _BOOLEANS:
        return _BOOLEANS[word.lower()]
    containers = tuple(kind for name, kind in (("object", dict), ("array", list)) if name in types)
    if containers and (container := _json(word, containers) or _literal(word, containers)):
        return container
    return json.dumps(value, ensure_ascii=False)


def json_or_coerced(value: str, types: frozenset[str]) -> str:
    """Return `value` without surrounding white space if it is JSON, else convert it."""
    return raw_json(value) or coerce(value, types)


def raw_json(value: str) -> str | None:
    """Return `value` without surrounding white space if it is JSON, else None."""
    return _json(value.strip(), (dict, list, str, int, float, bool, type(None)))


def _json(word: str, kinds: tuple[type, ...]) -> str | None:
    try:
        parsed = json.loads(word, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if isinstance(parsed, bool) and bool not in kinds:
        return None
    return word if isinstance(parsed, kinds) else None


def _loose(word: str) -> str | None:
    return repr(float(word)) if _LOOSE_NUMBER.fullmatch(word) else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # Python reads NaN and Infinity, which JSON does not have


def _literal(word: str, kinds: tuple[type, ...]) -> str | None:
    if len(word) > _LITERAL_CHARS:
        return None
    try:
        parsed = ast.literal_eval(word)
        if isinstance(parsed, kinds):
            return json.dumps(parsed, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    return None
