"""Values of a JSON object, replaced in its own text: every other byte stays as it was written."""

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
    """`text`, whose members are `fields`, with these values; those that it lacks are appended.

    None when a value's place cannot be told: a name stands there twice, or is none of the members,
    or there is no text.
    """
    found = value_spans(text, fields)
    if found is None:
        return None
    cuts = [(*found[name], encode(changes[name])) for name in found.keys() & changes.keys()]
    added = [b",%b:%b" % (encode(n), encode(v)) for n, v in changes.items() if n not in found]
    end = text.rindex(b"}")
    out, at = [], 0
    for start, stop, value in [*sorted(cuts), (end, end, b"".join(added))]:
        out += [text[at:start], value]
        at = stop
    return b"".join([*out, text[at:]])


def value_spans(text: bytes, fields: Mapping[str, Raw]) -> dict[str, tuple[int, int]] | None:
    """Where the value of each member begins and ends; None when that cannot be told."""
    found: dict[str, tuple[int, int]] = {}
    at = text.find(b"{") + 1
    while key := _KEY.match(text, at):
        name = _name.decode(key[1])
        if name not in fields:
            return None
        value = bytes(fields[name])
        start, at = key.end(), key.end() + len(value)
        if name in found or not text.startswith(value, start):
            return None
        found[name] = (start, at)
        separator = _NEXT.match(text, at)
        if separator is None:
            return None
        at = separator.end()
        if separator[1] == b"}":
            return found
    return None
