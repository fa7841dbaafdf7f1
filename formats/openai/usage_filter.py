"""Removes the usage chunk from a passed-through stream if the client did not ask for it.

The gateway always asks the upstream for usage.
"""

import re

import msgspec

from formats.openai.response_wire import Chunk

_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_EVENT = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.DOTALL)
_DATA = re.compile(rb"(?:\A|[\r\n])data: ?([^\r\n]*)")

_chunks = msgspec.json.Decoder(Chunk)


def without_usage(data: bytes) -> bytes:
    """Remove events that carry only usage; `data` must be whole events."""
    if not _NO_CHOICES.search(data):
        return data
    return b"".join(event for event in _EVENT.findall(data) if not _is_usage(event))


def _is_usage(event: bytes) -> bool:
    if not _NO_CHOICES.search(event):
        return False
    payload = b"\n".join(_DATA.findall(event))
    try:
        chunk = _chunks.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return chunk.usage is not None and not chunk.choices
