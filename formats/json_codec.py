"""JSON codec: strict and fast, and keeps lone surrogates.

Some upstreams split an emoji between two chunks, so that each has half a surrogate pair as an
escape. msgspec rejects such text; the standard library reads and writes it unchanged.
"""

import json
import re
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")

# Half a surrogate pair without the other half beside it.
_LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)

_encode = msgspec.json.encode

ABSENT = msgspec.Raw(b"")
"""Default of an optional Raw field; msgspec does not support `Raw | None`."""


def value_or_none(raw: msgspec.Raw) -> bytes | None:
    """Return the JSON text of a field; None if it is absent or null."""
    text = bytes(raw)
    return None if text in (b"", b"null") else text


def count_or_none(value: object) -> int | None:
    """Return a count from a number or a string of digits; None for anything else, like `true`."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if isinstance(value, int | float) and type(value) is not bool and 0 <= value < 10**15:
        return int(value)
    return None


def decode(decoder: "msgspec.json.Decoder[_T]", data: bytes) -> _T:
    """Decode `data`; raises msgspec.DecodeError or UnicodeDecodeError."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"\\ud" not in data and b"\\uD" not in data:
            raise
        try:
            return msgspec.convert(json.loads(data), decoder.type)
        except (ValueError, RecursionError):
            # Raw fields cannot be converted: replace lone surrogates in them.
            return decoder.decode(_LONE.sub(rb"\\ufffd", data))


def conforms(decoder: "msgspec.json.Decoder[Any]", data: bytes) -> bool:
    """Return whether `data` has the type of the decoder, and repeats no name in an object.

    Of a name that is there twice, some readers take the first value, and some the last.
    """
    try:
        decode(decoder, data)
        json.loads(data, object_pairs_hook=_unique)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def _unique(members: list[tuple[str, object]]) -> None:
    if len(dict(members)) < len(members):
        raise ValueError("a name is there twice")


def encode_string(text: str) -> bytes:
    """Encode `text` as a JSON string, with its quotes."""
    try:
        return _encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def encode(document: object) -> bytes:
    """Encode plain values, which may contain Raw JSON text."""
    try:
        return _encode(document)
    except UnicodeEncodeError:
        return _encode(_with_escapes(document))


def _with_escapes(value: object) -> object:
    match value:
        case str():
            return msgspec.Raw(encode_string(value))
        case dict():
            return {name: _with_escapes(item) for name, item in value.items()}
        case list() | tuple():
            return [_with_escapes(item) for item in value]
    return value


def to_bytes(json_text: str) -> bytes:
    """Encode JSON text as bytes; lone surrogates in its strings become escapes."""
    return json_text.encode("utf-8", "backslashreplace")


def escape(text: str) -> str:
    """Escape `text` for use between the quotes of a JSON string."""
    return encode_string(text)[1:-1].decode()
