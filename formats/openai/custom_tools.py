"""Custom tools, which take free text instead of JSON arguments, optionally with a grammar.

    {"type":"custom","custom":{"name":"ApplyPatch","format":{"type":"grammar","grammar":{…}}}}

Few models know them, so the model is offered a substitute: a function with one string, `input`. The
client gets the value of that string. The grammar is in the description; it is not enforced.
"""

import json
import re
from enum import Enum, auto

from formats.conversation import Tool
from formats.json_codec import encode_string

_SCHEMA = (
    b'{"type":"object","properties":{"input":{"type":"string","description":'
    b'"The whole input of the tool, as plain text."}},"required":["input"],'
    b'"additionalProperties":false}'
)
_BEGINNING = '{"input":"'
_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_CHARS = 256
# The inside of a JSON string, up to an incomplete escape. The first half of a surrogate pair is
# incomplete until it is known whether the second half follows.
_TEXT = re.compile(
    r"""(?: [^"\\]++
    | \\[^u]
    | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
    | \\u[dD][89abAB][0-9a-fA-F]{2}(?: \\u[0-9a-fA-F]{4} | (?=[^\\]|\\[^u]) )
    )*+""",
    re.VERBOSE,
)


def substitute(name: str, description: str | None, syntax: str, grammar: str) -> Tool:
    """Make the function that a model is offered for a custom tool; `grammar` may be empty."""
    if grammar:
        rule = f"The input must follow this {syntax} grammar:\n{grammar}"
        description = f"{description}\n\n{rule}" if description else rule
    return Tool(name, description, _SCHEMA, is_custom=True)


def wrap_input(text: str) -> bytes:
    """Turn the input of a custom tool into arguments of its substitute."""
    return b'{"input":%b}' % encode_string(text)


class _State(Enum):
    HEAD = auto()
    TEXT = auto()
    DONE = auto()  # after the string
    RAW = auto()  # the arguments do not start with `input`


class InputReader:
    """Reads the input of a custom tool from the streamed arguments of its substitute.

    Arguments that do not start with `input` are passed on unchanged: the client's tool rejects
    them, and tells the model.
    """

    def __init__(self) -> None:
        self._state = _State.HEAD
        self._incomplete = ""

    def feed(self, fragment: str) -> str:
        """Return the next part of the input."""
        text, self._incomplete = self._incomplete + fragment, ""
        if self._state is _State.HEAD:
            if head := _HEAD.match(text):
                self._state, text = _State.TEXT, text[head.end() :]
            elif len(text) < _HEAD_CHARS and _BEGINNING.startswith("".join(text.split())):
                self._incomplete = text
            else:
                self._state = _State.RAW
        match self._state:
            case _State.TEXT:
                return self._read(text)
            case _State.RAW:
                return text
        return ""

    def _read(self, text: str) -> str:
        match = _TEXT.match(text)
        end = match.end() if match else 0
        if text.startswith('"', end):
            self._state = _State.DONE
        else:
            self._incomplete = text[end:]
        return str(json.loads(f'"{text[:end]}"', strict=False))
