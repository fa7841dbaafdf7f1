"""Settings with which an answer was decoded, stored with its transcript; and decoding it again."""

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
    merge_deltas,
)
from proxy.audit.exchange import DecodingSettings, Exchange
from proxy.security.redaction import Redactor


@dataclass(frozen=True, slots=True)
class DecodedAnswer:
    events: list[Event]
    sent: bytes
    """The answer for the client."""

    @property
    def failure(self) -> MessageFailed | None:
        last = self.events[-1] if self.events else None
        return last if isinstance(last, MessageFailed) else None


def replay_input(exchange: Exchange, redactor: Redactor, limit: int) -> dict[str, Any]:
    """Everything `decode_again` needs besides the bytes and the tools; empty without an answer."""
    route, decoding = exchange.answer.route, exchange.answer.decoding
    if route is None or decoding is None:
        return {}
    return {
        "client": exchange.dialect,
        "upstream": route.upstream.dialect,
        "format": route.format.format,
        "held_chars": route.limits.held_chars,
        "strict": route.strict,
        "markers": [list(pair) for pair in route.markers],
        "split_thinking": route.split_thinking,
        "definition": route.definition,
        "token": exchange.token,
        "message_id": exchange.message_id,
        "model": redactor.redact_start(exchange.request.model, 1000),
        "input_estimate": exchange.request.input_estimate or 1,
        "is_whole": decoding.is_whole,
        "max_calls": decoding.max_calls,
        **_history(decoding, redactor, limit),
    }


def _history(decoding: DecodingSettings, redactor: Redactor, limit: int) -> dict[str, Any]:
    """Tool call ids and tool names of the conversation so far."""
    history = {"taken_ids": sorted(decoding.taken_ids), "aliases": decoding.aliases}
    data = redactor.redact_bytes(msgspec.json.encode(history))
    if len(data) <= limit:
        try:
            value: dict[str, Any] = msgspec.json.decode(data)
        except ValueError:  # a redaction took more than a part of a string
            pass
        else:
            return value
    return {"taken_ids": [], "aliases": {}}


def decode_again(raw: bytes, reading: dict[str, Any], tools: list[dict[str, Any]]) -> DecodedAnswer:
    """Decode a stored answer with the code of this version.

    `reading`: as `replay_input` made it, or with other settings.
    """
    pipeline = build_pipeline(
        client=reading["client"],
        upstream=reading["upstream"],
        format_name=reading["format"],
        identity=Identity(
            token=reading["token"],
            message_id=reading["message_id"],
            model=reading["model"],
            taken_ids=reading["taken_ids"],
        ),
        toolbox=Toolbox([_tool(fields) for fields in tools], aliases=reading["aliases"]),
        max_calls=reading["max_calls"],
        options=ReplyOptions(input_estimate=reading["input_estimate"]),
        limits=Limits(held_chars=reading["held_chars"]),
        strict=reading["strict"],
        markers=tuple((role, text) for role, text in reading["markers"]),
        # Transcripts of older versions do not have these.
        split_thinking=reading.get("split_thinking"),
        definition=reading.get("definition"),
    )
    if reading["is_whole"]:
        events = pipeline.decode_whole(raw)
    else:
        events = pipeline.decode(raw) + pipeline.decode_end()
    return DecodedAnswer(merge_deltas(events), pipeline.encode(events))


def _tool(fields: dict[str, Any]) -> Tool:
    schema = msgspec.json.encode(fields["schema"])
    return Tool(fields["name"], None, schema, is_custom=fields.get("is_custom", False))
