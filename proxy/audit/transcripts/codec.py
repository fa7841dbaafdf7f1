"""What an exchange said: opened for whoever shows it, and packed for everything on the way there.

It is packed once, where it was redacted. The journal and the database have the same bytes, and
nobody looks into them in between. What is JSON in the parts is text, as numbers of any size are in
it; a request and its tools are read when they are shown, which is seldom.
"""

from hashlib import sha256
from typing import Any

import msgspec
from lz4.block import LZ4BlockError, compress, decompress

from proxy.security.redaction import NUL, storable

_LARGEST = 256 * 1024 * 1024
"""Bytes of all parts: each has 16 MiB at most, and in JSON an escape makes six of one."""
_ORDINARY = 1024 * 1024
"""Bytes of a transcript whose room is kept for the next one."""


class Unreadable(Exception):
    """What is stored is not what was packed: it was damaged, or a later version wrote it."""


class Facts(msgspec.Struct, frozen=True):
    """All of a transcript that is neither a text of others nor large."""

    headers: dict[str, str] = {}
    """Of the client's request, those that are worth keeping."""
    reading: dict[str, Any] = {}
    """How the answer was read: dialects, format, limit, strictness, markers, calls allowed."""
    arrivals: list[list[int | float]] = []
    """Of each read of the upstream: its offset in `raw`, and the milliseconds since the start."""
    events: list[Any] = []
    """Of each its name, and its fields."""
    left_out: dict[str, list[int]] = {}
    """Of what was not kept whole: how long the head is, and how much is missing behind it."""
    redactions: int = 0


class Declared(msgspec.Struct, frozen=True, array_like=True):
    """A tool, as reading the answer needs it."""

    name: str
    schema: bytes
    is_custom: bool = False


class Said(Facts, frozen=True):
    """What an exchange said, redacted and bounded: head and tail, if it was longer."""

    request: str = ""
    tools: list[dict[str, Any]] = []
    raw: bytes = b""
    sent: bytes = b""


class Parts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In an order in which what says the same is near: the compression looks back 64 KiB."""

    request: bytes
    tools: msgspec.Raw = msgspec.Raw(b"")
    """Missing only if there is `standing`."""
    raw: bytes
    sent: bytes
    facts: bytes
    standing: str = ""
    """Only in transcripts of the version before: the digest of the shared part of the request.
    `request` then has the messages alone."""


class _SharedPart(msgspec.Struct, frozen=True):
    """All of a request except its messages, as the version before stored it once per session."""

    before: bytes
    after: bytes
    tools: msgspec.Raw


# Where parts are put together: in memory that is in the processor's cache already. Nobody waits for
# another's: whoever finds none makes one.
_rooms: list[bytearray] = []
_encoder = msgspec.msgpack.Encoder()
_parts = msgspec.msgpack.Decoder(Parts)
_shared_part = msgspec.msgpack.Decoder(_SharedPart)
_declared = msgspec.msgpack.Decoder(list[Declared])
_facts = msgspec.json.Decoder(Facts)
_write_json = msgspec.json.Encoder().encode


def pack_tools(tools: list[Declared]) -> bytes:
    return _encoder.encode(tools)


def facts_part(facts: Facts) -> bytes:
    """Facts as parts have them."""
    try:
        text = _write_json(facts)
    except UnicodeEncodeError:  # half a surrogate pair
        text = b""
    if not text or b"\\u0000" in text:
        return _write_json(storable(msgspec.to_builtins(facts)))
    return text


def gather(parts: Parts) -> bytearray:
    """All parts in one piece, to be looked at and pressed."""
    try:
        room = _rooms.pop()
    except IndexError:
        room = bytearray()
    _encoder.encode_into(parts, room)
    return room


def press(room: bytearray) -> bytes:
    """What was gathered, as it is stored; the room is used again."""
    packed: bytes = compress(room)
    if len(room) <= _ORDINARY:
        _rooms.append(room)
    return packed


def unpack(data: bytes, shared: bytes = b"") -> Said:
    """Open a transcript; raises Unreadable. `shared`: see `with_whole_request`."""
    parts = _open(data, shared)
    try:
        facts, declared = _facts.decode(parts.facts), _declared.decode(parts.tools)
    except ValueError as error:
        raise Unreadable("its bytes are not what was packed") from error
    return Said(
        **msgspec.structs.asdict(facts),
        request=parts.request.decode("utf-8", "replace").replace("\0", NUL),
        tools=[_tool(tool) for tool in declared],
        raw=parts.raw,
        sent=parts.sent,
    )


def with_whole_request(data: bytes, shared: bytes) -> bytes:
    """Pack a transcript of the version before with all of its request; raises Unreadable.

    `shared`: the packed part of the request that transcripts of a session have in common.
    """
    return press(gather(_open(data, shared)))


def _open(data: bytes, shared: bytes) -> Parts:
    try:
        parts = _parts.decode(_decompressed(data))
        if not parts.standing:
            return parts
        if sha256(shared).hexdigest() != parts.standing:
            raise Unreadable("the shared part of its request is missing or damaged")
        part = _shared_part.decode(_decompressed(shared))
    except (LZ4BlockError, ValueError) as error:
        raise Unreadable("its bytes are not what was packed") from error
    request = part.before + parts.request + part.after
    return msgspec.structs.replace(parts, request=request, tools=part.tools, standing="")


def _decompressed(data: bytes) -> bytes:
    if int.from_bytes(data[:4], "little") > _LARGEST:
        raise Unreadable("it is larger than anything that is packed")
    found: bytes = decompress(data)
    return found


def _tool(tool: Declared) -> dict[str, Any]:
    try:
        schema = storable(msgspec.json.decode(tool.schema))
    except (ValueError, RecursionError):  # what was taken out was more than a part of a string
        schema = {}
    return {"name": tool.name, "schema": schema} | ({"is_custom": True} if tool.is_custom else {})


def repack(said: Said) -> bytes:
    """The inverse of `unpack`."""
    known = msgspec.structs.asdict(said)
    facts = Facts(**{name: known[name] for name in Facts.__struct_fields__})
    tools = [
        Declared(tool["name"], _write_json(tool["schema"]), tool.get("is_custom", False))
        for tool in said.tools
    ]
    parts = Parts(
        request=said.request.encode(),
        tools=msgspec.Raw(pack_tools(tools)),
        raw=said.raw,
        sent=said.sent,
        facts=facts_part(facts),
    )
    return press(gather(parts))
