"""Replaces values in the text of a JSON object; every other byte stays as it is."""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from formats.json_codec import encode

_KEY = re.compile(rb'\s*("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*', re.DOTALL)
_NEXT = re.compile(rb"\s*([,}])")

_name = msgspec.json.Decoder(str)


def replace_values(
    text: bytes, fields: Mapping[str, Raw], changes: Mapping[str, object]
) -> bytes | None:
    """Return `text`, an object with the members `fields`, with these changes; append new members.

    Return None if a value cannot be located: a name is repeated or not in `fields`, or `text` is
    empty.
    """
    spans = value_spans(text, fields)
    if spans is None:
        return None
    cuts = [(*spans[name], encode(changes[name])) for name in spans.keys() & changes.keys()]
    added = [b",%b:%b" % (encode(n), encode(v)) for n, v in changes.items() if n not in spans]
    end = text.rindex(b"}")
    out, at = [], 0
    for start, stop, value in [*sorted(cuts), (end, end, b"".join(added))]:
        out += [text[at:start], value]
        at = stop
    return b"".join([*out, text[at:]])


def value_spans(text: bytes, fields: Mapping[str, Raw]) -> dict[str, tuple[int, int]] | None:
    """Locate the value of each member, as (start, end); None if that is impossible."""
    spans: dict[str, tuple[int, int]] = {}
    at = text.find(b"{") + 1
    while key := _KEY.match(text, at):
        name = _name.decode(key[1])
        if name not in fields:
            return None
        value = bytes(fields[name])
        start, at = key.end(), key.end() + len(value)
        if name in spans or not text.startswith(value, start):
            return None
        spans[name] = (start, at)
        separator = _NEXT.match(text, at)
        if separator is None:
            return None
        at = separator.end()
        if separator[1] == b"}":
            return spans
    return None
