"""Entries of a journal: one line of JSON each.

A line written by another version may have fields that this version does not know, or lack fields
that have a default. Bytes are base64.
"""

from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from proxy.audit.transcripts.codec import Unreadable, with_whole_request


class StartEntry(msgspec.Struct, frozen=True, tag="begun"):
    """An exchange was accepted. If its process dies, this is all that is known about it."""

    exchange: dict[str, Any]


class SharedPart(msgspec.Struct, frozen=True):
    """The part of a request that several transcripts of the previous version share."""

    digest: str
    packed: bytes = b""
    """Empty if an earlier line of the segment has it."""


class EndEntry(msgspec.Struct, frozen=True, tag="ended"):
    """An exchange has ended: its row, its kind of failure, and its transcript if that is kept."""

    exchange: dict[str, Any]
    fingerprint: str | None
    packed: bytes | None = None
    transcript: object = None
    """Always null. The previous version requires the field."""
    standing: SharedPart | None = None
    """Only in lines of the previous version. `make_whole` removes it."""


class DropEntry(msgspec.Struct, frozen=True, tag="dropped"):
    """An exchange has ended, and its entry was dropped because the journal is full."""

    request_id: str


JournalEntry: TypeAlias = StartEntry | EndEntry | DropEntry
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[JournalEntry] = msgspec.json.Decoder(JournalEntry)


def encode(entry: JournalEntry) -> bytes:
    return _encoder.encode(entry) + b"\n"


def decode(line: bytes) -> JournalEntry:
    """The inverse of `encode`; raises ValueError."""
    entry = _decoder.decode(line)
    try:
        if not isinstance(entry, DropEntry):
            entry.exchange["request_id"]
            # JSON has no type for times.
            entry.exchange["created_at"] = datetime.fromisoformat(entry.exchange["created_at"])
    except (KeyError, TypeError) as error:
        raise ValueError("the line lacks a required field") from error
    return entry


def make_whole(entry: EndEntry, shared: dict[str, bytes]) -> EndEntry:
    """Put the shared part of a request back into its transcript.

    The previous version writes a shared part once per segment. `shared` collects these parts; pass
    the same dict for all lines of a segment. If the line with the shared part is unreadable, only
    the row is kept.
    """
    part = entry.standing
    if part is None:
        return entry
    if part.packed:
        shared[part.digest] = part.packed
    packed = None
    if entry.packed is not None and part.digest in shared:
        try:
            packed = with_whole_request(entry.packed, shared[part.digest])
        except Unreadable:
            packed = None
    return replace(entry, packed=packed, standing=None)
