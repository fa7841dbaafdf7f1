"""Estimates the input tokens of a request before the upstream has counted them.

There is no tokenizer: models differ, and one would cost milliseconds. But all tokenizers split text
in much the same places, so the characters alone give the number of tokens: a letter is a fifth of a
token, a bracket most of one. The weights in `_CLASSES` were fitted by least squares to six
tokenizers over prose, code, tool output, JSON and a dozen scripts; docs/tokens.md has the errors.
They err on the high side, because a client that sees too low a number compacts too late.

Not for billing, which uses the upstream's own counts.
"""

from bisect import bisect
from collections.abc import Iterable
from math import isqrt
from typing import TypeVar
from zlib import adler32

from formats.conversation import (
    Conversation,
    Document,
    Image,
    Part,
    Reasoning,
    RedactedReasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from formats.image_tokens import decode_slice, image_tokens
from formats.tool_cache import cached_by_tools

_Text = TypeVar("_Text", str, bytes)

_UNIT = 50  # weight of one token
# The first UTF-8 byte of a character beyond ASCII identifies the script, and has all its weight.
_CLASSES = {
    b"abcdefghijklmnopqrstuvwxyz": 11,
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ": 17,
    b"0123456789": 46,  # a token each for Qwen, a third for most others
    b" ": 6,  # usually the beginning of a word, or indentation
    b"\n\r": 50,
    b"\t": 25,
    b".,": 12,
    b'"': 12,  # in JSON, part of a longer token: `":"`
    b"_:;": 20,
    b"=*#~": 30,  # often repeated
    b"()[]{}<>": 36,
    b"'`!$%&+?@^|": 40,
    b"/-": 42,
    b"\\": 60,
    bytes(range(0xC2, 0xCE)): 95,  # Latin with accents, which break a word
    b"\xce\xcf": 39,  # Greek
    b"\xd0\xd1\xd2\xd3": 19,  # Cyrillic
    bytes(range(0xD4, 0xE0)): 31,  # Armenian, Hebrew, Arabic
    b"\xe0\xe1": 49,  # the scripts of India and South-East Asia
    b"\xe2": 62,  # typographic signs, arrows, boxes
    b"\xe3": 33,  # kana
    bytes(range(0xE4, 0xEA)): 38,  # Han
    b"\xea\xeb\xec\xed": 43,  # Hangul
    b"\xee\xef": 40,
    b"\xf0\xf1\xf2\xf3\xf4": 124,  # emoji
}
_WEIGHTS = bytes(
    next((weight for members, weight in _CLASSES.items() if byte in members), 0)
    for byte in range(256)
)
# Texts up to this length are not sampled. Longer ones are sampled with two steps together,
# both primes, because lines of equal length coincide with few of them.
_WHOLE = 1024
_STEPS = (7, 11, 13, 17, 23, 31, 41, 53, 71, 97, 127, 173, 229, 307, 409)
# The weights of this many bytes always add up to less than adler32's modulus, 65521.
_BLOCK = 1024

# Tokens added by chat templates: between those of Qwen3, GLM-4.7 and MiniMax M3.
_MESSAGE = 5
_CALL = 10
_RESULT = 8
_TOOL = 20
_TOOLS = 150  # instructions for calling tools, once; 159 to 530 for Claude 3
_OPAQUE = 6  # base64 characters per token of encrypted reasoning

# A page of a PDF counts as its text and an image, 1,600 to 2,500 tokens for Claude. Its size is a
# guess between typeset text (20 KB) and scans (200 KB).
_PAGE = 2500
_PAGE_BASE64 = 100_000
_MAX_PAGES = 100  # Anthropic's limit
_LINKED_PAGES = 4


def estimate_tokens(conversation: Conversation) -> int:
    """Estimate the input tokens that an upstream will count; at least 1."""
    content = _Content()
    content.texts = [text.text for text in conversation.system]
    if conversation.tools or conversation.server_tools:
        content.tokens = _TOOLS + _TOOL * len(conversation.server_tools)
        content.tokens += _tokens_of_tools(conversation.tools)
    if conversation.output_schema:
        content.json.append(conversation.output_schema)
    content.tokens += _MESSAGE * (1 + len(conversation.messages))
    for message in conversation.messages:
        content.add(message.parts)
    return content.tokens + content.text_tokens()


@cached_by_tools
def _tokens_of_tools(tools: tuple[Tool, ...]) -> int:
    content = _Content()
    content.texts = [f"{tool.name} {tool.description or ''}" for tool in tools]
    content.json = [tool.schema for tool in tools]
    return _TOOL * len(tools) + content.text_tokens()


class _Content:
    """The content of a conversation: texts, which are weighed together, and other tokens."""

    def __init__(self) -> None:
        self.tokens = 0
        self.texts: list[str] = []
        self.json: list[bytes] = []

    def add(self, parts: Iterable[Part]) -> None:
        for part in parts:
            # Fast path: a class pattern takes several times as long.
            if type(part) is Text:
                self.texts.append(part.text)
            elif type(part) is ToolCall:
                self.tokens += _CALL
                self.texts.append(part.name)
                self.json.append(part.arguments)
            elif type(part) is ToolResult:
                self.tokens += _RESULT
                self.add(part.content)
            else:
                self._add_other(part)

    def _add_other(self, part: Part) -> None:
        match part:
            case Reasoning(text=text, signature=signature):
                self.texts.append(text)
                self.tokens += len(signature or "") // _OPAQUE
            case RedactedReasoning(data=data):
                self.tokens += len(data) // _OPAQUE + 1
            case Image():
                self.tokens += image_tokens(part)
            case Document():
                self._add_document(part)

    def _add_document(self, document: Document) -> None:
        self.tokens += _MESSAGE
        self.texts.append(document.title or "")
        if document.text is not None:
            self.texts.append(document.text)
        elif document.data is None:
            self.tokens += _PAGE * _LINKED_PAGES
        elif (document.media_type or "").startswith("text/"):
            # If it is not base64, it is the text itself.
            text = decode_slice(document.data, 0, len(document.data)).decode(errors="replace")
            self.texts.append(text or document.data)
        else:
            self.tokens += _PAGE * min(len(document.data) // _PAGE_BASE64 + 1, _MAX_PAGES)

    def text_tokens(self) -> int:
        """Estimate the tokens of the texts."""
        texts, json = "\n".join(filter(None, self.texts)), b"\n".join(self.json)
        size = len(texts) + len(json)
        at = bisect(_STEPS, isqrt(size // 32), hi=len(_STEPS) - 2) if size > _WHOLE else None
        weight = _weight(_sample(texts, at), len(texts)) + _weight(_sample(json, at), len(json))
        return weight // _UNIT + 1 if size else 0


def _sample(text: _Text, at: int | None) -> _Text:
    """Return a short text whole, or every nth character of a long one.

    n grows with the square root of the length: 400 characters of 2 KB and 3,500 of 100 KB are
    sampled, with errors of 3 % and 1 %.
    """
    return text if at is None else text[:: _STEPS[at]] + text[1 :: _STEPS[at + 1]]


def _weight(sample: str | bytes, size: int) -> int:
    """Return the weight of a text of `size` characters, from a sample of it."""
    if not sample:
        return 0
    text = sample.encode("utf-8", "replace") if isinstance(sample, str) else sample
    weights = text.translate(_WEIGHTS)
    # The low half of adler32 is the sum of the bytes; no other way to add them is as fast.
    starts = range(0, len(weights), _BLOCK)
    total = sum([adler32(weights[at : at + _BLOCK], 0) & 0xFFFF for at in starts])
    return total * size // len(sample)
