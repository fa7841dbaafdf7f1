"""Tells which places in a Markdown text are code or quoted, while the text arrives.

Code is a block between fences, a line that is indented by four blanks or a tab, and a span between
runs of backticks on one line. A line that begins with `>` is quoted. Of the text, only the
beginning of a line is kept, until it shows what the line is.
"""

import re
from re import Match

_FENCE = r"(?P<fence>`{3,}+|~{3,}+)"
_LINE = re.compile(
    r"(?P<quote> {0,3}>)|(?P<code> {4}| {0,3}\t)|"
    rf"(?P<indent> {{0,3}}(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]{{1,4}})?){_FENCE}"
)
_CUT_LINE = re.compile(r" {0,3}(?:(?:[-*+]|\d{1,9}[.)]?)[ \t]{0,4})?(?:`*|~*)\Z")
_END_FENCE = re.compile(rf"(?P<indent> *){_FENCE}")
_CUT_END_FENCE = re.compile(r" *(?:`*|~*)\Z")
_TICKS = re.compile("`+")
# A line that is code, a quotation or a list begins with one of them.
_FIRST = frozenset(" \t>`~-*+0123456789")
# A longer fence counts as one of this length.
_HEAD_CHARS = 64


class Markdown:
    def __init__(self) -> None:
        self._head: str | None = ""  # the beginning of the line, until that is decided
        self._is_marked = False  # the line is a quotation or indented code
        self._span = 0  # the length of the backticks that have begun a code span
        self._ticks = 0  # the length of the backticks at the end of the text
        self._fence: Match[str] | None = None  # the line that has begun a block of code
        self._next_fence: Match[str] | None = None  # the same from the next line on; None: no block
        self._is_pending = False  # backticks or a fence are not decided yet
        self.is_watching = True
        """False if only backticks and new lines can change anything."""

    @property
    def is_in_block(self) -> bool:
        """True inside a block of code, or in a line that is quoted or indented."""
        return self._fence is not None or self._is_marked or (self._head or "").endswith("~~~")

    @property
    def is_in_span(self) -> bool:
        """True inside a code span."""
        return self._span > 0 or self._ticks > 0

    def add(self, text: str) -> None:
        """Read more text."""
        if self._head or self._is_pending or "`" in text or "~" in text:
            first, *others = text.split("\n")
            self._read(first)
            for line in others:
                self._end_line()
                self._read(line)
            self._is_pending = self._ticks > 0 or self._next_fence is not self._fence
        else:  # no block and no span can begin or end here: only the last line counts
            if "\n" in text:
                text = text[text.rfind("\n") + 1 :]
                self._head, self._is_marked, self._span = "", False, 0
            if text and self._head is not None:
                if text[0] in _FIRST:
                    self._read(text)
                else:
                    self._head = None  # as most lines begin
        self.is_watching = self._is_pending or self._head is not None

    def skip(self) -> None:
        """A call was read: what follows it on the line is not its beginning."""
        self._head, self._ticks = None, 0
        self._is_pending = self.is_watching = False

    def _read(self, text: str) -> None:
        """Read a part of a line."""
        if text and self._head is not None:
            head = self._head + text
            cut = _CUT_END_FENCE if self._fence else _CUT_LINE
            if len(head) <= _HEAD_CHARS and cut.match(head):
                self._head = head
                return
            text = self._read_head(head)
        if self._fence is None:
            self._read_ticks(text)
        elif self._next_fence is None and text.strip(" \t\r"):
            self._next_fence = self._fence  # a fence with other text does not end the block

    def _read_head(self, head: str) -> str:
        """Decide what a line is; return the part of `head` behind what shows that."""
        self._head = None
        head, rest = head[:_HEAD_CHARS], head[_HEAD_CHARS:]
        if self._fence is not None:
            end = _END_FENCE.match(head)
            if end and _closes(self._fence, end):
                self._next_fence = None
                return head[end.end() :] + rest
            return head + rest
        line = _LINE.match(head)
        if line is None:
            return head + rest
        if line["fence"] is None:
            self._is_marked = True
        else:
            self._next_fence = line
            if line["fence"][0] == "`":
                self._span = len(line["fence"])
            else:
                self._is_marked = True
        return head[line.end() :] + rest

    def _read_ticks(self, text: str) -> None:
        """Read backticks, which begin and end code spans."""
        begin = len(text) - len(text.lstrip("`"))
        self._ticks += begin
        if begin == len(text):
            return
        self._end_ticks()
        for ticks in _TICKS.finditer(text, begin):
            self._ticks = len(ticks[0])
            if ticks.end() < len(text):
                self._end_ticks()

    def _end_ticks(self) -> None:
        if not self._ticks:
            return
        if not self._span:
            self._span = self._ticks
        elif self._span == self._ticks:
            self._span = 0
        if self._next_fence and self._next_fence["fence"][0] == "`":
            self._next_fence = None  # a span that begins with three backticks
        self._ticks = 0

    def _end_line(self) -> None:
        if self._head:
            self._read_head(self._head)
        if self._ticks:
            self._end_ticks()
        self._fence = self._next_fence
        self._head, self._is_marked, self._span, self._ticks = "", False, 0, 0


def _closes(begin: Match[str], end: Match[str]) -> bool:
    """Return whether a fence closes the block; in a list, it may be indented like its text."""
    return end["fence"].startswith(begin["fence"]) and (
        len(end["indent"]) <= len(begin["indent"]) + 3
    )
