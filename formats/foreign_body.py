"""Describes a body that is not an answer of any dialect: a web page, plain text, other JSON.

Such bodies come from proxies, login pages and servers at the wrong address. Their text is hostile:
a quote of it is short, on one line and printable.
"""

import codecs
import html
import re
from dataclasses import dataclass

import msgspec

_SEARCHED_BYTES = 64 * 1024
_QUOTED_CHARS = 200
_HTML = re.compile(r"<(?:!doctype\s+html|html|head|body|title|h1|center)\b", re.IGNORECASE)
_TITLE = re.compile(r"<(title|h1)\b[^>]{0,200}>([^<]{1,1000})", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,1000}>")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_FIELDS = (b"data", b"event", b"id", b"retry")
_MAX_UNPRINTABLE = 0.1
"""Share of the characters; more of them are binary data."""

_json = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class ForeignBody:
    kind: str
    """A noun for a sentence: `a web page`."""
    quote: str
    """The title of a page, or the beginning of a text; empty if there is none."""


def is_foreign(start: bytes, content_type: str = "") -> bool:
    """Return whether a body that starts like this is neither JSON nor server-sent events."""
    if start.startswith((b"{", b"[", b":")):
        return False
    name, separator, _ = start.partition(b":")
    if not separator:
        name = start.splitlines()[0] if start else b""
    if name in _FIELDS:
        return False
    if not separator and name == start:  # there may be more of the first line
        return not any(field.startswith(name) for field in _FIELDS)
    return not (separator and "event-stream" in content_type.lower() and name.isalpha())


def describe_body(body: bytes, content_type: str = "") -> ForeignBody:
    """Describe a body by its content; the type only decides how bytes become characters."""
    body = body[:_SEARCHED_BYTES]
    if not body.strip():
        return ForeignBody("an empty body", "")
    text = _decode(body, content_type)
    if text is None:
        return ForeignBody("binary data", "")
    start = text.lstrip("\ufeff \t\r\n")[:1000]
    if start.startswith("<"):
        if _HTML.search(start):
            title = _TITLE.search(text)
            return ForeignBody("a web page", one_line(html.unescape(title[2])) if title else "")
        return ForeignBody("XML", one_line(html.unescape(_TAG.sub(" ", text))))
    if _is_json(body):
        return ForeignBody("JSON that is not an answer", one_line(text))
    return ForeignBody("text", one_line(text))


def one_line(text: str) -> str:
    """Return the beginning of a text on one line, without characters that cannot be seen."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())
    return line if len(line) <= _QUOTED_CHARS else f"{line[: _QUOTED_CHARS - 1]}…"


def _decode(body: bytes, content_type: str) -> str | None:
    """Decode a text; None for binary data."""
    charset = _CHARSET.search(content_type)
    declared = charset[1] if charset else "utf-8"
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        declared = "utf-16"
    try:
        text = body.decode(declared)
    except (LookupError, ValueError):  # unknown, or not the charset of these bytes
        text = body.decode("utf-8", "replace")
    unprintable = sum(not (c.isprintable() or c.isspace()) or c == "\ufffd" for c in text[:2000])
    return None if unprintable > _MAX_UNPRINTABLE * len(text[:2000]) else text


def _is_json(body: bytes) -> bool:
    try:
        _json.decode(body.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
