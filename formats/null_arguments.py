"""Filter that drops nulls from a call's arguments where the tool's schema does not allow them.

Models write `null` for a parameter that they mean to omit, and Claude Code rejects such calls. Only
members of the outermost object are dropped; everything else is forwarded unchanged. Only the
beginning of one member is held, up to the first character of its value.
"""

import re
from collections.abc import Set

# Longer than any parameter's name; a member with a longer name is never dropped.
_HEAD_CHARS = 256
_SPACE = r"[ \t\r\n]*"
_HEAD = re.compile(rf'{_SPACE}"((?:[^"\\]|\\.)*)"{_SPACE}:{_SPACE}(?=[^ \t\r\n])', re.DOTALL)
_CLOSER = re.compile(rf"{_SPACE}}}")
_NULL = re.compile(r"[a-z \t\r\n]*")
_STRING = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_PLAIN = re.compile(r'[^"{}\[\],]*')


class _In:
    # Not an Enum, whose members are ten times slower to look up.
    START = "start"
    HEAD = "before a member, or before the end"
    VALUE = "value"
    STRING = "string of a value"
    NULL = "null of a member that is dropped"
    END = "end"


class NullFilter:
    def __init__(self, optional: Set[str]) -> None:
        """`optional` are the parameters that may be absent, but not null."""
        self.dropped: list[str] = []
        self._optional = optional
        self._in: str = _In.START
        self._held = ""
        self._depth = 0  # nesting inside the value
        self._has_members = False  # whether a member was forwarded

    def feed(self, text: str) -> str:
        """Add a part of the arguments, which must be JSON; return what can be forwarded now."""
        if self._in is _In.STRING and not self._held and _STRING.fullmatch(text):
            return text  # fast path for long strings
        text, self._held = self._held + text, ""
        out: list[str] = []
        pos = 0
        while pos < len(text):
            end = self._step(text, pos, out)
            if end == pos and self._held:
                break
            pos = end
        return "".join(out)

    def _step(self, text: str, pos: int, out: list[str]) -> int:
        match self._in:
            case _In.START:
                self._in = _In.HEAD if text[pos] == "{" else _In.END
                out.append(text[pos])
                return pos + 1
            case _In.HEAD:
                return self._read_head(text, pos, out)
            case _In.VALUE:
                return self._read_value(text, pos, out)
            case _In.STRING:
                return self._read_string(text, pos, out)
            case _In.NULL:
                end = _match_end(_NULL, text, pos)
                if end < len(text):
                    self._in = _In.VALUE
                return end
        out.append(text[pos:])
        return len(text)

    def _read_head(self, text: str, pos: int, out: list[str]) -> int:
        if closer := _CLOSER.match(text, pos):
            self._in = _In.END
            out.append(closer[0])
            return closer.end()
        head = _HEAD.match(text, pos)
        if head is None and len(text) - pos <= _HEAD_CHARS:
            self._held = text[pos:]
            return pos
        if head and head[1] in self._optional and text[head.end()] == "n":
            self.dropped.append(head[1])
            self._in = _In.NULL
            return head.end()
        if self._has_members:
            out.append(",")
        self._has_members = True
        self._in = _In.VALUE
        if head is None:  # the name is too long: forward it like a value
            return pos
        out.append(head[0])
        return head.end()

    def _read_value(self, text: str, pos: int, out: list[str]) -> int:
        end = _match_end(_PLAIN, text, pos)
        out.append(text[pos:end])
        if end == len(text):
            return end
        char = text[end]
        if char == "," and not self._depth:  # forwarded before the next member, if there is one
            self._in = _In.HEAD
            return end + 1
        out.append(char)
        if char == '"':
            self._in = _In.STRING
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
            if self._depth < 0:
                self._in = _In.END
        return end + 1

    def _read_string(self, text: str, pos: int, out: list[str]) -> int:
        end = _match_end(_STRING, text, pos)
        out.append(text[pos:end])
        if end == len(text):
            return end
        if text[end] == "\\":  # an unfinished escape
            self._held = text[end:]
            return len(text)
        self._in = _In.VALUE
        out.append('"')
        return end + 1


def _match_end(pattern: "re.Pattern[str]", text: str, pos: int) -> int:
    match = pattern.match(text, pos)
    return match.end() if match else pos
