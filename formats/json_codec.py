"""JSON text as the wire carries it: strict and fast, with lone surrogates kept.

Some upstreams cut an emoji between two chunks, so that each carries half a surrogate pair as an
escape. msgspec refuses such text; the standard library reads and writes it unchanged.
"""

import json
import re
from typing import TypeVar

import msgspec

_T = TypeVar("_T")

# A half of a surrogate pair whose other half is not beside it.
_LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)

_encode = msgspec.json.encode

ABSENT = msgspec.Raw(b"")
"""The default of a field that is kept as JSON text; msgspec has no optional Raw."""


def value_or_none(raw: msgspec.Raw) -> bytes | None:
    """The JSON text of a field, if it was there and not null."""
    text = bytes(raw)
    return None if text in (b"", b"null") else text


def decode(decoder: "msgspec.json.Decoder[_T]", data: bytes) -> _T:
    """`data` as the decoder's type; raises msgspec.DecodeError or UnicodeDecodeError."""
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
            # Text that only passes through cannot be converted: there, half a pair is replaced.
            return decoder.decode(_LONE.sub(rb"\\ufffd", data))


def encode_string(text: str) -> bytes:
    """`text` as a JSON string, quotes included."""
    try:
        return _encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def encode(document: object) -> bytes:
    """JSON text of plain values, and of JSON text among them."""
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
    """JSON text as bytes; a lone surrogate in one of its strings becomes an escape."""
    return json_text.encode("utf-8", "backslashreplace")


def escape(text: str) -> str:
    """`text` as it stands between the quotes of a JSON string."""
    return encode_string(text)[1:-1].decode()
