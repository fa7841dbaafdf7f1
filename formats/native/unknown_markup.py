"""Recognises calls in a markup that no family is known to write.

A sign is a tag or a token directly before a call of a declared tool, in one of three shapes:

    <|do|>{"name": "get_tide", "arguments": …        also in an array, or inside {"function": …
    <do>get_tide<with>{"harbor": "Moss"}             with or without the second tag
    <do>get_tide<key>harbor</key>                    if `harbor` is a parameter of the tool

The name of a declared tool is what makes it precise: markup alone is in every web page. Quoted
markup is only mentioned, and so is markup in a code fence. The text is searched every two
kilobytes, because the result is needed at the end of the message only.
"""

import re
from collections.abc import Iterator
from re import Match

from formats.toolbox import Toolbox

UNKNOWN = "unknown"
"""Stands for the family of such markup."""
# Longer than any sign.
_WINDOW = 512
_SEARCHED_AT_ONCE = 2048
_LONGEST_OPENER = 50
_FENCE = "```"

_TAG = r"<(?!/)[^\s<>\"'`=]{1,48}>"
_OPENER = re.compile(rf"(?<![`\"'“\\])(?:{_TAG}|\[[A-Z][A-Z0-9_ ]{{2,30}}\])")
_NAME = r"(?P<{}>[\w.-]{{1,64}})"
_STRING_OR_NUMBER = r"(?:\"[^\"\\]{0,64}\"|\d{1,9})"
_CALL = re.compile(
    r"\s{0,8}(?:\[\s{0,8})?\{\s{0,16}"
    rf"(?:\"(?:id|type|index)\"\s?:\s?{_STRING_OR_NUMBER}\s?,\s{{0,16}}){{0,3}}"
    r"\"(?:name|tool|tool_name|function|function_name)\"\s?:\s?"
    rf"(?:\{{\s{{0,16}}\"name\"\s?:\s?)?\"{_NAME.format('in_json')}\""
    rf"|\s{{0,8}}{_NAME.format('before_json')}(?::\d{{1,6}})?\s{{0,8}}"
    rf"(?:{_TAG}\s{{0,8}})?\{{\s{{0,16}}[\"}}]"
    rf"|\s{{0,8}}{_NAME.format('before_key')}(?::\d{{1,6}})?\s{{0,8}}"
    rf"{_TAG}\s{{0,8}}{_NAME.format('key')}\s{{0,8}}<"
)
# What follows an opener for as long as it may become a call.
_BEGINNING = re.compile(r"\s{0,8}(?:[\[{]|[\w.-]{1,64}(?::\d{0,6})?\s{0,8}(?:[<{]|\Z)|\Z)")
_CUT_OPENER = re.compile(r"(?:<(?!/)[^\s<>\"'`=]{0,48}|\[[A-Z0-9_ ]{0,31})\Z")


class UnknownMarkup:
    """Searches the text of one message."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.is_pending = False
        """True if text is held that may become a sign. If not, only text with `<`, `[` or a
        backtick must be added."""
        self._toolbox = toolbox
        self._parts: list[str] = []
        self._size = 0
        self._is_fenced = False  # the held text begins inside a code fence
        self._is_seen = False

    def add(self, text: str, before: str) -> None:
        """Add a part of the text; `before` is the character before it."""
        if not self._parts and before and before != "`":
            self._parts.append(before)
        self._parts.append(text)
        self._size += len(text)
        self.is_pending = True
        if self._size >= _SEARCHED_AT_ONCE:
            self._search()

    def close(self) -> bool:
        """Return whether a sign was seen."""
        if self._parts and not self._is_seen:
            self._search()
        return self._is_seen

    def _search(self) -> None:
        text = "".join(self._parts)
        is_fenced, pos = self._is_fenced, 0
        for start in _calls_of(text, self._toolbox):
            is_fenced ^= text.count(_FENCE, pos, start) % 2 == 1
            pos = start
            if not is_fenced:
                self._is_seen = True
                break
        cut = _undecided_from(text)
        self._is_fenced ^= text.count(_FENCE, 0, cut) % 2 == 1
        self._parts = [text[cut:]] if cut < len(text) else []
        self._size = len(text) - cut
        self.is_pending = bool(self._parts) and not self._is_seen


def _calls_of(text: str, toolbox: Toolbox) -> Iterator[int]:
    """Return where the markup of each call of a declared tool begins."""
    for opener in _OPENER.finditer(text):
        call = _CALL.match(text, opener.end())
        if call is not None and _is_declared(call, toolbox):
            yield opener.start()


def _undecided_from(text: str) -> int:
    """Return from where on the text may become a sign, or a fence, with the text that follows."""
    start = max(len(text) - _WINDOW - _LONGEST_OPENER, 0)
    for opener in _OPENER.finditer(text, start):
        is_recent = len(text) - opener.end() < _WINDOW
        if is_recent and _BEGINNING.match(text, opener.end()):
            return max(opener.start() - 1, 0)
    if cut := _CUT_OPENER.search(text, max(len(text) - _LONGEST_OPENER, 0)):
        return max(cut.start() - 1, 0)
    ticks = len(text) - len(text.rstrip("`"))
    return len(text) - ticks % len(_FENCE)


def _is_declared(call: "Match[str]", toolbox: Toolbox) -> bool:
    written = call["in_json"] or call["before_json"] or call["before_key"]
    name = toolbox.resolve(written)
    if name not in toolbox:
        return False
    return call["key"] is None or call["key"] in toolbox.parameters(name)
