"""Chunks in a row that each bring a little more of the same: most of an answer, read as one.

Such chunks are alike but for one string. What stands before and behind it is the run's shape, and a
chunk of that shape is not read again: JSON is read from left to right, so between the same two
texts anything that can stand inside a string is the whole difference. The decoder itself proves a
shape, when it is learned: with another string in its place the chunk must be the same but for that
string. What does not have the shape, or has no string there, is read as any other chunk.
"""

import re
from operator import itemgetter
from typing import TypeAlias

import msgspec

from formats.events import ReasoningDelta, TextDelta, ToolCallDelta
from formats.openai.response_wire import Chunk, Delta

Kind: TypeAlias = type[TextDelta] | type[ReasoningDelta] | type[ToolCallDelta]

_INSIDE = rb'"\s*:\s*"((?:[^"\\]++|\\.)*+)"'
_STRING: dict[Kind, re.Pattern[bytes]] = {
    TextDelta: re.compile(rb'"content' + _INSIDE),
    ReasoningDelta: re.compile(rb'"reasoning(?:_content)?' + _INSIDE),
    ToolCallDelta: re.compile(rb'"arguments' + _INSIDE),
}
# Nothing begins with a carriage return: server-sent events have line feeds by now.
_NO_SHAPE = (b"\r", b"\r")
# An upstream whose chunks have two strings of their own, as OpenAI's padding is one, has no shape.
_ATTEMPTS = 3

_chunks = msgspec.json.Decoder(Chunk)
_string = msgspec.json.Decoder(str)
_strings = msgspec.json.Decoder(list[str])


class Run:
    def __init__(self) -> None:
        self.kind: Kind | None = None
        """Of the newest chunk; None if it was more than a little more of something."""
        self.shape = _NO_SHAPE
        """What stands before and behind the string."""
        self.frame: tuple[bytes, bytes] | None = None
        """The same of a server-sent event of one line."""
        self.alike: list[bytes] = []
        """Chunks that have the shape, and have not been read."""
        self.texts: list[str] = []
        """Of those that were read."""
        self._attempts = 0  # to learn a shape, since one was of use

    def add(self, kind: Kind, text: str, data: bytes, chunk: Chunk) -> None:
        """Take another chunk, `data`, which says nothing but that `text` goes on."""
        if kind is not self.kind:
            self.end()
            self.kind, self._attempts = kind, 0
        elif self._attempts < _ATTEMPTS:
            self._attempts += 1
            self.shape = before, behind = _learn(kind, text, data, chunk)
            is_line = self.shape is not _NO_SHAPE and b"\n" not in before + behind
            self.frame = (b"data: " + before, behind + b"\n\n") if is_line else None
        self.texts.append(text)

    def only(self, data: bytes) -> str:
        """The string of one whole event that has the shape; empty if `data` is anything else."""
        if self.frame is None:
            return ""
        before, behind = self.frame
        if not (data.startswith(before) and data.endswith(behind)):
            return ""
        if data.find(b"\n") != len(data) - 2:  # one of several, which are cut first
            return ""
        try:
            text = _string.decode(b'"%b"' % data[len(before) : -len(behind)])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        self._attempts = 0
        return text

    def read_alike(self) -> list[bytes]:
        """Read the chunks that have the shape; they are given back if one has no string there."""
        chunks, self.alike = self.alike, []
        start, end = len(self.shape[0]), -len(self.shape[1])
        # No string has a line feed, so none can reach beyond its line, and each line has one.
        strings = b'",\n"'.join(map(itemgetter(slice(start, end)), chunks))
        try:
            texts = _strings.decode(b'["%b"]' % strings)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return chunks
        # An empty one may mean something else, or be none: one quote both before and behind.
        if len(texts) != len(chunks) or "" in texts:
            return chunks
        self._attempts = 0
        self.texts += texts
        return []

    def end(self) -> None:
        """Something else came."""
        self.kind, self.shape, self.frame = None, _NO_SHAPE, None


def _learn(kind: Kind, text: str, data: bytes, chunk: Chunk) -> tuple[bytes, bytes]:
    """What stands before and behind the string of a chunk, if that is its only meaning."""
    found = _STRING[kind].search(data)
    if found is None:
        return _NO_SHAPE
    start, end = found.span(1)
    try:
        other = _chunks.decode(b"%b?%b" % (data[:end], data[end:]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _NO_SHAPE
    delta = other.choices[0].delta if other.choices else None
    if delta is None or _replace(delta, kind, text) != f"{text}?" or other != chunk:
        return _NO_SHAPE
    return data[:start], data[end:]


def _replace(delta: Delta, kind: Kind, text: str) -> object:
    """Put `text` into the place of the string of this kind, and give that back."""
    was: object
    if kind is TextDelta:
        was, delta.content = delta.content, text
    elif kind is ReasoningDelta:
        was = delta.reasoning or delta.reasoning_content
        if delta.reasoning:
            delta.reasoning = text
        else:
            delta.reasoning_content = text
    else:
        entry = delta.tool_calls[0] if delta.tool_calls else None
        if entry is None or entry.function is None:
            return None
        was, entry.function.arguments = entry.function.arguments, text
    return was
