"""How complex a request's JSON may be, and whether it is text at all.

A decoder that takes nothing unknown has read what it took: that is UTF-8, and no deeper than its
type. Only what none has read is looked at here. The exact depth costs as much as parsing. So the
number of brackets is taken for it first, and that of brackets and commas for the number of values,
whether they are in strings or not: it can only be larger. It is taken of single messages, and what
is suspicious even so is counted exactly. JSON that is not valid is the parser's affair.
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
"""As deep as a value may stand that a typed decoder leaves unread: a source's, in a result."""

_items = msgspec.json.Decoder(list[Raw])


class Complexity(Struct, frozen=True):
    """What the JSON of a request may have at most."""

    depth: int = 128
    nodes: int = 200_000


DEFAULT_COMPLEXITY = Complexity()


Fields: TypeAlias = dict[str, Raw]


class Parse(Protocol):
    def __call__(
        self, body: bytes, max_complexity: Complexity = DEFAULT_COMPLEXITY
    ) -> Conversation: ...


def with_complexity_check(parse: Callable[[bytes, Fields, Complexity], Conversation]) -> Parse:
    """`parse`, of a body alone; if that is no UTF-8 or too complex, it is said before all else."""

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
    """Check how many values a body has; raises ClientError."""
    # A value is a character, and another parts it from the next.
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
    """Check all of a body, but for the values of some fields; raises ClientError."""
    unseen = len(body) - sum(map(len, fields)) - sum(map(len, fields.values()))
    # Nothing is unseen but quotes, colons, commas and two brackets: no space, and no field that is
    # there twice, of which the last value counts and the others are still a part of the body.
    is_all = unseen == 4 * len(fields) + 1
    if not is_all:
        _require_utf8(body)
        if unseen >= 2 * max_complexity.depth:
            _check_body(body, max_complexity)
    for name, value in fields.items():
        if name not in except_fields:
            check_value(bytes(value), max_complexity, is_text=not is_all)


def check_value(value: bytes, max_complexity: Complexity, *, is_text: bool = False) -> None:
    """Check a field's value, which may be known to be UTF-8; raises ClientError."""
    if not is_text:
        _require_utf8(value)
    # A level is two brackets, so a value needs so many characters to be too deep.
    if len(value) >= 2 * max_complexity.depth and not _is_within(value, max_complexity.depth - 1):
        raise _too_deep(max_complexity)


def check_unread(body: bytes, texts: Iterable[bytes], max_complexity: Complexity) -> None:
    """Check what typed decoders have left unread; raises ClientError."""
    depth = max_complexity.depth - _TYPED_LEVELS
    for text in texts:
        _require_utf8(text)
        if len(text) >= 2 * depth and not _is_within(text, depth):
            _check_body(body, max_complexity)
    if depth < 0:
        _check_body(body, max_complexity)


def _require_utf8(text: bytes) -> None:
    try:
        if not text.isascii():  # which takes a hundredth of the time
            text.decode()
    except UnicodeDecodeError as error:
        raise ClientError(f"the body is not valid UTF-8: {error.reason}") from error


def _check_body(body: bytes, max_complexity: Complexity) -> None:
    if _openings(body) > max_complexity.depth and _depth(body) > max_complexity.depth:
        raise _too_deep(max_complexity)
    _require_utf8(body)


def _is_within(value: bytes, depth: int) -> bool:
    """Whether a value has so many levels at most."""
    if not value.startswith(b"["):
        return _openings(value) <= depth or _depth(value) <= depth
    try:
        large = [bytes(item) for item in _items.decode(value) if len(item) >= 2 * depth]
    except RecursionError:
        return _depth(value) <= depth
    suspicious = [item for item in large if _openings(item) >= depth]
    return all(_depth(item) < depth for item in suspicious)


def _openings(text: bytes) -> int:
    return len(text.translate(None, _NO_OPENING))  # in half the time of counting either


def _most_nodes(text: bytes) -> int:
    """Every value but the outermost follows a bracket or a comma."""
    return 1 + _openings(text) + text.count(b",")


def _structure(text: bytes) -> bytes:
    """The brackets and commas outside of strings."""
    if b"\\" in text:
        # In this order: of a run of backslashes the first escapes the second.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.translate(None, _ELSEWHERE).split(b'"')[::2])


def _depth(text: bytes) -> int:
    return max(accumulate(map(_STEPS.__getitem__, _structure(text).replace(b",", b""))), default=0)


def _too_deep(max_complexity: Complexity) -> TooComplex:
    return TooComplex(f"is nested more than {max_complexity.depth} levels deep")
