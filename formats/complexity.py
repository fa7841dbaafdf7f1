"""Limits on the depth and size of a request's JSON, and a check that it is UTF-8.

Values that a strictly typed decoder has read are already UTF-8 and no deeper than its type; only
other values are checked here. Counting exactly costs as much as parsing. Therefore opening brackets
are counted first, as an upper bound of the depth, and brackets and commas, as an upper bound of the
number of values; those inside strings are included. Only if a bound exceeds its limit, the exact
number is counted. Invalid JSON is left to the parser.
"""

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Raw, Struct

from formats.conversation import Conversation
from formats.errors import ClientError, TooComplex
from formats.request_errors import read_fields

_OUTSIDE_STRINGS = b'"[]{},'
_ELSEWHERE = bytes(byte for byte in range(256) if byte not in _OUTSIDE_STRINGS)
_STEPS = dict(zip(b"[{]}", (1, 1, -1, -1), strict=True))
_NO_OPENING = bytes(byte for byte in range(256) if byte not in b"[{")

_TYPED_LEVELS = 8
"""Levels above the deepest value that a typed decoder leaves unread: a source in a tool result."""

_items = msgspec.json.Decoder(list[Raw])


class Complexity(Struct, frozen=True):
    """Maximum complexity of a request's JSON."""

    depth: int = 128
    nodes: int = 200_000


DEFAULT_COMPLEXITY = Complexity()


Fields: TypeAlias = dict[str, Raw]


class Parse(Protocol):
    def __call__(
        self, body: bytes, max_complexity: Complexity = DEFAULT_COMPLEXITY
    ) -> Conversation: ...


def with_complexity_check(parse: Callable[[bytes, Fields, Complexity], Conversation]) -> Parse:
    """Wrap `parse` to take a body; errors in UTF-8 or complexity take precedence over others."""

    def parsed(body: bytes, max_complexity: Complexity = DEFAULT_COMPLEXITY) -> Conversation:
        check_nodes(body, max_complexity)
        try:
            fields = read_fields(body)
        except ClientError:
            _check_body(body, max_complexity)
            raise
        try:
            return parse(body, fields, max_complexity)
        except (ClientError, UnicodeDecodeError):
            check_fields(body, fields, max_complexity)
            raise

    return parsed


def check_nodes(body: bytes, max_complexity: Complexity) -> None:
    """Check the number of values in a body; raises ClientError."""
    # A value takes at least two characters, including its separator.
    if len(body) > 2 * max_complexity.nodes and _most_nodes(body) > max_complexity.nodes:
        if _most_nodes(_structure(body)) > max_complexity.nodes:
            raise TooComplex(f"has more than {max_complexity.nodes} values")


def check_fields(
    body: bytes,
    fields: Fields,
    max_complexity: Complexity,
    *,
    except_fields: frozenset[str] = frozenset(),
) -> None:
    """Check a body except the values of some fields; raises ClientError."""
    unseen = len(body) - sum(map(len, fields)) - sum(map(len, fields.values()))
    # True if the body is nothing but fields, quotes, colons, commas and two brackets: no white
    # space, and no repeated field, of which only the last value is in `fields`.
    is_all = unseen == 4 * len(fields) + 1
    if not is_all:
        _require_utf8(body)
        if unseen >= 2 * max_complexity.depth:
            _check_body(body, max_complexity)
    for name, value in fields.items():
        if name not in except_fields:
            check_value(bytes(value), max_complexity, is_text=not is_all)


def check_value(value: bytes, max_complexity: Complexity, *, is_text: bool = False) -> None:
    """Check a field's value; raises ClientError. `is_text`: it is known to be UTF-8."""
    if not is_text:
        _require_utf8(value)
    # A level takes two brackets, so a shorter value cannot be too deep.
    if len(value) >= 2 * max_complexity.depth and not _is_within(value, max_complexity.depth - 1):
        raise _too_deep(max_complexity)


def check_unread(body: bytes, texts: Iterable[bytes], max_complexity: Complexity) -> None:
    """Check texts that typed decoders left unread; raises ClientError."""
    depth = max_complexity.depth - _TYPED_LEVELS
    for text in texts:
        _require_utf8(text)
        if len(text) >= 2 * depth and not _is_within(text, depth):
            _check_body(body, max_complexity)
    if depth < 0:
        _check_body(body, max_complexity)


def _require_utf8(text: bytes) -> None:
    try:
        if not text.isascii():  # a hundred times as fast as decoding
            text.decode()
    except UnicodeDecodeError as error:
        raise ClientError(f"the body is not valid UTF-8: {error.reason}") from error


def _check_body(body: bytes, max_complexity: Complexity) -> None:
    if _openings(body) > max_complexity.depth and _depth(body) > max_complexity.depth:
        raise _too_deep(max_complexity)
    _require_utf8(body)


def _is_within(value: bytes, depth: int) -> bool:
    """Return whether a value has at most `depth` levels."""
    if not value.startswith(b"["):
        return _openings(value) <= depth or _depth(value) <= depth
    try:
        large = [bytes(item) for item in _items.decode(value) if len(item) >= 2 * depth]
    except RecursionError:
        return _depth(value) <= depth
    suspicious = [item for item in large if _openings(item) >= depth]
    return all(_depth(item) < depth for item in suspicious)


def _openings(text: bytes) -> int:
    return len(text.translate(None, _NO_OPENING))  # twice as fast as two calls of `count`


def _most_nodes(text: bytes) -> int:
    """Return an upper bound: every value but the outermost follows a bracket or a comma."""
    return 1 + _openings(text) + text.count(b",")


def _structure(text: bytes) -> bytes:
    """Return the brackets and commas outside strings."""
    if b"\\" in text:
        # The order matters: in a run of backslashes the first escapes the second.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.translate(None, _ELSEWHERE).split(b'"')[::2])


def _depth(text: bytes) -> int:
    return max(accumulate(map(_STEPS.__getitem__, _structure(text).replace(b",", b""))), default=0)


def _too_deep(max_complexity: Complexity) -> TooComplex:
    return TooComplex(f"is nested more than {max_complexity.depth} levels deep")
