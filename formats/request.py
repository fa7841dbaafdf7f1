"""What the two dialects' request parsers share: JSON that is refused in the client's own terms."""

import re
from typing import TypeVar

import msgspec

from formats.errors import ClientError

_T = TypeVar("_T")

_AT = re.compile(r"(.*) - at `\$\.?(.*?)`", re.DOTALL)
_ITEM = re.compile(r"\[(\d+|\.\.\.)\]")


def parse_json(decoder: "msgspec.json.Decoder[_T]", body: bytes, *, path: str = "") -> _T:
    """`body` as the decoder's type; raises ClientError, whose message names the JSON path."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message, place = str(error), ""
        if found := _AT.fullmatch(message):
            message, place = found[1], _ITEM.sub(r".\1", found[2]).lstrip(".")
        place = ".".join(part for part in (path, place) if part)
        raise ClientError(message[:1].lower() + message[1:], path=place) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClientError(f"the body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ClientError("the body is nested too deeply") from error


def require_object(raw: bytes | None, *, path: str) -> bytes:
    """JSON text that must be an object."""
    if raw is None or not raw.lstrip().startswith(b"{"):
        raise ClientError("must be an object", path=path)
    return raw
