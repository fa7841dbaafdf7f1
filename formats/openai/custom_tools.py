"""Custom tools: free text instead of arguments, perhaps after a grammar.

    {"type":"custom","custom":{"name":"ApplyPatch","format":{"type":"grammar","grammar":{…}}}}

Few models know them, so a function with the one string `input` stands in for the tool, and that
string is what the client gets. The grammar is told to the model; nobody enforces it.
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
# The inside of a JSON string, up to an escape that may go on: half a surrogate pair is not decoded
# before it is known whether the other half follows.
_TEXT = re.compile(
    r"""(?: [^"\\]++
    | \\[^u]
    | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
    | \\u[dD][89abAB][0-9a-fA-F]{2}(?: \\u[0-9a-fA-F]{4} | (?=[^\\]|\\[^u]) )
    )*+""",
    re.VERBOSE,
)


def stand_in(name: str, description: str | None, syntax: str, grammar: str) -> Tool:
    """The function that a model is offered for a custom tool; `grammar` may be empty."""
    if grammar:
        rule = f"The input must follow this {syntax} grammar:\n{grammar}"
        description = f"{description}\n\n{rule}" if description else rule
    return Tool(name, description, _SCHEMA, is_custom=True)


def arguments_of(text: str) -> bytes:
    """The arguments of the stand-in, for the input of a custom tool."""
    return b'{"input":%b}' % encode_string(text)


class _In(Enum):
    HEAD = auto()
    TEXT = auto()
    REST = auto()  # behind the string
    RAW = auto()  # arguments that are not the stand-in's


class InputReader:
    """The input of a custom tool, read from the arguments of its stand-in as they arrive.

    Arguments that do not begin with `input` are passed on as they stand: the client's tool refuses
    them, and the model is told.
    """

    def __init__(self) -> None:
        self._in = _In.HEAD
        self._held = ""

    def feed(self, fragment: str) -> str:
        """What is known of the input by now, and was not before."""
        text, self._held = self._held + fragment, ""
        if self._in is _In.HEAD:
            if head := _HEAD.match(text):
                self._in, text = _In.TEXT, text[head.end() :]
            elif len(text) < _HEAD_CHARS and _BEGINNING.startswith("".join(text.split())):
                self._held = text
            else:
                self._in = _In.RAW
        match self._in:
            case _In.TEXT:
                return self._read(text)
            case _In.RAW:
                return text
        return ""

    def _read(self, text: str) -> str:
        known = _TEXT.match(text)
        end = known.end() if known else 0
        if text.startswith('"', end):
            self._in = _In.REST
        else:
            self._held = text[end:]
        return str(json.loads(f'"{text[:end]}"', strict=False))
