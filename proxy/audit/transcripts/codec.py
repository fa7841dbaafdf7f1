"""Transcript codec: msgpack, compressed with lz4.

A transcript is packed once, after redaction. The journal and the database store the same bytes. The
request, the upstream's bytes and the client's bytes are binary; tool schemas and the other fields
are JSON text, because JSON has numbers of any size.
"""

from hashlib import sha256
from typing import Any

import msgspec
from lz4.block import LZ4BlockError, compress, decompress

from formats import Event
from proxy.security.redaction import NUL, storable

_MAX_BYTES = 256 * 1024 * 1024
"""Limit for an unpacked transcript. A part has at most 16 MiB, and a JSON escape takes six bytes
for one."""


class Unreadable(Exception):
    """The stored bytes are damaged, or a later version wrote them."""


class _Details(msgspec.Struct, frozen=True):
    """The small fields of a transcript."""

    headers: dict[str, str] = {}
    """Selected headers of the client's request."""
    reading: dict[str, Any] = {}
    """Settings with which the answer was decoded; see `replay_input`."""
    arrivals: list[list[int | float]] = []
    """For each read from the upstream: its offset in `raw`, and milliseconds since the start."""
    events: list[Any] = []
    """Each as `stored_event` makes it."""
    left_out: dict[str, list[int]] = {}
    """By name of a shortened part: the length of its head, and how much is missing after it."""
    redactions: int = 0


class TranscriptContent(_Details, frozen=True):
    """The content of an exchange, redacted. A part over the limit has its head and its tail."""

    request: str = ""
    tools: list[dict[str, Any]] = []
    """Declared tools: `name`, `schema`, and `is_custom` if true."""
    raw: bytes = b""
    """The upstream's answer."""
    sent: bytes = b""
    """The answer to the client."""


class _PackedTool(msgspec.Struct, frozen=True, array_like=True):
    name: str
    schema: bytes
    is_custom: bool = False


class _Parts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    # Similar parts are neighbours: lz4 finds repetitions within 64 KiB.
    request: bytes
    tools: msgspec.Raw = msgspec.Raw(b"")
    """A list of `_PackedTool`. Missing only if there is `standing`."""
    raw: bytes
    sent: bytes
    facts: bytes
    """`_Details` as JSON."""
    standing: str = ""
    """Only in transcripts of the previous version: the digest of the shared part of the request.
    `request` then has only the messages."""


class _SharedPart(msgspec.Struct, frozen=True):
    """A request without its messages, which the previous version stored once per session."""

    before: bytes
    after: bytes
    tools: msgspec.Raw


_write_json = msgspec.json.Encoder().encode
_write_msgpack = msgspec.msgpack.Encoder().encode
_read_parts = msgspec.msgpack.Decoder(_Parts).decode
_read_shared_part = msgspec.msgpack.Decoder(_SharedPart).decode
_read_tools = msgspec.msgpack.Decoder(list[_PackedTool]).decode
_read_details = msgspec.json.Decoder(_Details).decode


def pack(content: TranscriptContent) -> bytes:
    tools = [_pack_tool(tool) for tool in content.tools]
    parts = _Parts(
        request=content.request.encode(),
        tools=msgspec.Raw(_write_msgpack(tools)),
        raw=content.raw,
        sent=content.sent,
        facts=_pack_details(content),
    )
    return _compress(parts)


def unpack(data: bytes, shared: bytes = b"") -> TranscriptContent:
    """The inverse of `pack`; raises Unreadable. `shared`: see `with_whole_request`."""
    parts = _decompress(data, shared)
    try:
        details, tools = _read_details(parts.facts), _read_tools(parts.tools)
    except ValueError as error:
        raise Unreadable("its bytes are not a packed transcript") from error
    return TranscriptContent(
        **msgspec.structs.asdict(details),
        request=request_text(parts.request),
        tools=[tool_fields(t.name, t.schema, is_custom=t.is_custom) for t in tools],
        raw=parts.raw,
        sent=parts.sent,
    )


def with_whole_request(data: bytes, shared: bytes) -> bytes:
    """Pack a transcript of the previous version with its whole request; raises Unreadable.

    `shared`: the packed part of the request that the transcripts of a session share.
    """
    return _compress(_decompress(data, shared))


def request_text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", NUL)


def tool_fields(name: str, schema: bytes, *, is_custom: bool) -> dict[str, Any]:
    """A declared tool. A schema that is not valid JSON becomes empty."""
    try:
        value = msgspec.json.decode(schema)
        if b"\\u" in schema or b"\0" in schema:  # may be a character that databases reject
            value = storable(value)
    except (ValueError, RecursionError):
        value = {}
    return {"name": name, "schema": value} | ({"is_custom": True} if is_custom else {})


def _pack_tool(tool: dict[str, Any]) -> _PackedTool:
    return _PackedTool(tool["name"], _write_json(tool["schema"]), tool.get("is_custom", False))


def _pack_details(content: TranscriptContent) -> bytes:
    details = _Details(*[getattr(content, name) for name in _Details.__struct_fields__])
    try:
        text = _write_json(details)
    except UnicodeEncodeError:  # half a surrogate pair
        text = b""
    if not text or b"\\u0000" in text:
        return _write_json(storable(msgspec.to_builtins(details)))
    return text


def _compress(parts: _Parts) -> bytes:
    data: bytes = compress(_write_msgpack(parts))
    return data


def _decompress(data: bytes, shared: bytes) -> _Parts:
    try:
        parts = _read_parts(_decompress_bytes(data))
        if not parts.standing:
            return parts
        if sha256(shared).hexdigest() != parts.standing:
            raise Unreadable("the shared part of its request is missing or damaged")
        part = _read_shared_part(_decompress_bytes(shared))
    except (LZ4BlockError, ValueError) as error:
        raise Unreadable("its bytes are not a packed transcript") from error
    request = part.before + parts.request + part.after
    return msgspec.structs.replace(parts, request=request, tools=part.tools, standing="")


def _decompress_bytes(data: bytes) -> bytes:
    if int.from_bytes(data[:4], "little") > _MAX_BYTES:
        raise Unreadable("it is larger than any packed transcript")
    plain: bytes = decompress(data)
    return plain


def stored_event(event: Event) -> list[Any]:
    """An event as JSON: its name, and its fields."""
    return [type(event).__name__, storable(msgspec.to_builtins(event))]


def load_event(stored: list[Any]) -> Event:
    """The inverse of `stored_event`."""
    name, fields = stored
    event: Event = msgspec.convert(fields, type=_EVENTS[name])
    return event


_EVENTS: dict[str, Any] = {kind.__name__: kind for kind in Event.__args__}
