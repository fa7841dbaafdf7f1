"""Decodes the JSON of requests, with errors that name the place in the client's JSON."""

import re
from typing import TypeVar

import msgspec

from formats.errors import ClientError

_T = TypeVar("_T")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

_AT = re.compile(r"(.*) - at `\$\.?([^`]*)`", re.DOTALL)
_OFFSET = re.compile(r" \(byte (\d+)\)$")
_ITEM = re.compile(r"\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"Object missing required field `(.*)`")


def read_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """Split a request's JSON object into its members, undecoded; raises ClientError."""
    return parse_json(_fields, body)


def parse_json(
    decoder: "msgspec.json.Decoder[_T]", body: bytes | msgspec.Raw, *, path: str = ""
) -> _T:
    """Decode `body`; raises ClientError, whose message names the JSON path."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message, place = str(error), ""
        if placed := _AT.fullmatch(message):
            message, place = placed[1], _ITEM.sub(r".\1", placed[2]).lstrip(".")
        if missing := _MISSING.fullmatch(message):
            message, place = "is required", f"{place}.{missing[1]}".lstrip(".")
        place = ".".join(part for part in (path, place) if part)
        raise ClientError(message[:1].lower() + message[1:], path=place) from error
    except msgspec.DecodeError as error:
        if not bytes(body).strip():
            raise ClientError("the body is empty: send the request as JSON") from error
        raise ClientError(f"the body is not valid JSON: {_with_line(str(error), body)}") from error
    except UnicodeDecodeError as error:
        raise ClientError(f"the body is not valid UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise ClientError("the body is nested too deeply") from error


def _with_line(message: str, body: bytes | msgspec.Raw) -> str:
    """Replace the offset in a message by line and column; without an offset, use the end."""
    offset, text = _OFFSET.search(message), bytes(body)
    before = text[: int(offset[1])] if offset else text
    line = before.count(b"\n") + 1
    column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return f"{_OFFSET.sub('', message)} (line {line}, column {column})"


def require(value: _T | None, path: str) -> _T:
    if value is None:
        raise ClientError("is required", path=path)
    return value


def require_object(raw: bytes | None, *, path: str) -> bytes:
    """Return JSON text that must be an object; raises ClientError."""
    raw = require(raw, path)
    if not raw.startswith(b"{"):  # the text of a field has no leading white space
        raise ClientError("must be an object", path=path)
    return raw
