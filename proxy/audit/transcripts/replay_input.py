"""How an answer was read, ready to be stored; and the same answer, read again."""

from dataclasses import dataclass
from typing import Any

import msgspec

from formats import (
    Event,
    Identity,
    Limits,
    MessageFailed,
    ReplyOptions,
    Tool,
    Toolbox,
    build_pipeline,
    cached_by_tools,
    merge_deltas,
)
from proxy.audit.exchange import Exchange
from proxy.audit.transcripts.codec import Declared, pack_tools
from proxy.security.redaction import Redactor, are_suspect, storable_text


@dataclass(frozen=True, slots=True)
class Again:
    """An answer that was read again."""

    events: list[Event]
    sent: bytes

    @property
    def failure(self) -> MessageFailed | None:
        last = self.events[-1] if self.events else None
        return last if isinstance(last, MessageFailed) else None


def packed_tools(tools: tuple[Tool, ...], redactor: Redactor, limit: int) -> tuple[bytes, int]:
    """The declared tools, and how many bytes of schemas were too many."""
    size = sum([len(tool.schema) for tool in tools])
    if size > limit:
        names = [storable_text(redactor.brief(tool.name, 200)) for tool in tools[:1000]]
        return pack_tools([Declared(name, b"{}") for name in names]), size
    plain = _plain_tools(tools)
    if plain and redactor.is_clean(plain):  # of what is known
        return plain, 0
    return pack_tools(
        [
            Declared(
                storable_text(redactor.text(tool.name)),
                redactor.redact(tool.schema),
                tool.is_custom,
            )
            for tool in tools
        ]
    ), 0


@cached_by_tools
def _plain_tools(tools: tuple[Tool, ...]) -> bytes:
    """Tools in which nothing looks like a secret, packed as they are; of others, nothing."""
    names = "\n".join([tool.name for tool in tools])
    if not names.isascii() or "\0" in names:
        return b""
    if are_suspect(b"\n".join([names.encode(), *[tool.schema for tool in tools]])):
        return b""
    return pack_tools([Declared(tool.name, tool.schema, tool.is_custom) for tool in tools])


def reading_fields(exchange: Exchange, redactor: Redactor, limit: int) -> dict[str, Any]:
    route, reading = exchange.route, exchange.reading
    if route is None or reading is None:
        return {}
    fields = {
        "client": exchange.dialect,
        "upstream": route.upstream.dialect,
        "format": route.format.format,
        "held_chars": route.limits.held_chars,
        "strict": route.strict,
        "markers": [list(pair) for pair in route.markers],
        "token": exchange.token,
        "message_id": exchange.message_id,
        "model": redactor.brief(exchange.model, 1000),
        "input_estimate": exchange.input_estimate or 1,
        "is_whole": reading.is_whole,
        "max_calls": reading.max_calls,
    }
    history = {"taken_ids": sorted(reading.taken_ids), "aliases": reading.aliases}
    encoded = msgspec.json.encode(history)
    clean = redactor.redact(encoded)
    known = (history if clean is encoded else _json(clean)) if len(clean) <= limit else {}
    return {"taken_ids": [], "aliases": {}} | fields | known


def _json(data: bytes) -> dict[str, Any]:
    """A redacted object; empty if what was taken out was more than a part of a string."""
    try:
        value: dict[str, Any] = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return value


def read_again(
    raw: bytes,
    reading: dict[str, Any],
    tools: list[dict[str, Any]],
    *,
    format_name: str | None = None,
    held_chars: int | None = None,
    strict: bool | None = None,
) -> Again:
    """Run stored bytes through today's code, as they were read or as the arguments say."""
    pipeline = build_pipeline(
        client=reading["client"],
        upstream=reading["upstream"],
        format_name=format_name or reading["format"],
        identity=Identity(
            token=reading["token"],
            message_id=reading["message_id"],
            model=reading["model"],
            taken_ids=reading["taken_ids"],
        ),
        toolbox=Toolbox(
            [
                Tool(
                    tool["name"],
                    None,
                    msgspec.json.encode(tool["schema"]),
                    is_custom=tool.get("is_custom", False),
                )
                for tool in tools
            ],
            aliases=reading["aliases"],
        ),
        max_calls=reading["max_calls"],
        options=ReplyOptions(input_estimate=reading["input_estimate"]),
        limits=Limits(held_chars=held_chars or reading["held_chars"]),
        strict=reading["strict"] if strict is None else strict,
        # Other spellings are those of the format that they were set for.
        markers=tuple((role, text) for role, text in reading["markers"])
        if format_name in (None, reading["format"])
        else (),
    )
    if reading["is_whole"]:
        events = pipeline.decode_whole(raw)
    else:
        events = pipeline.decode(raw) + pipeline.decode_end()
    return Again(merge_deltas(events), pipeline.encode(events))
