"""What a journal's lines say, and how: JSON, a line each.

What JSON has no type for is made of its text again when a line is read. A line of another version
may have fields that this one does not know, or lack those that have a default.
"""

from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from proxy.audit.transcripts.codec import Said, Standing, repack


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """An exchange was accepted; should its process be lost, this is what is known of it."""

    exchange: dict[str, Any]


class Entry(msgspec.Struct, frozen=True, tag="ended"):
    """An exchange has ended: its row, its kind of failure, its transcript if that is kept.

    What is bytes is base64 in a line.
    """

    exchange: dict[str, Any]
    transcript: Said | None
    """As the version before wrote it; whoever reads a line gets it packed."""
    fingerprint: str | None
    packed: bytes | None = None
    standing: Standing | None = None
    """What stands in the transcript's request and in others'; only the first line of a segment that
    has it tells it."""


class Dropped(msgspec.Struct, frozen=True, tag="dropped"):
    """An exchange has ended, and there is no room for its entry."""

    request_id: str


Line: TypeAlias = Begun | Entry | Dropped
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def encode(line: Line) -> bytes:
    return _encoder.encode(line) + b"\n"


def decode(data: bytes) -> Line:
    """A line, as it was encoded; raises ValueError."""
    line = _decoder.decode(data)
    try:
        if not isinstance(line, Dropped):
            line.exchange["request_id"]
            # What JSON has no type for.
            line.exchange["created_at"] = datetime.fromisoformat(line.exchange["created_at"])
    except (KeyError, TypeError) as error:
        raise ValueError("a line lacks what every line of its kind has") from error
    if isinstance(line, Entry) and line.transcript is not None:
        return Entry(line.exchange, None, line.fingerprint, repack(line.transcript))
    return line
