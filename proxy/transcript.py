"""A transcript's parts, ready to be stored: bounded and redacted. And its answer, read again."""

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
from proxy.errors import UpstreamFailed
from proxy.exchange import Exchange
from proxy.redaction import Redactor

# Of a client's headers, those that tell something and no secret.
KEPT_HEADERS = (
    "user-agent",
    "anthropic-version",
    "anthropic-beta",
    "content-type",
    "x-app",
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-stainless-package-version",
    "x-stainless-retry-count",
)


@dataclass(frozen=True, slots=True)
class Again:
    """An answer that was read again."""

    events: list[Event]
    sent: bytes

    @property
    def failure(self) -> MessageFailed | None:
        last = self.events[-1] if self.events else None
        return last if isinstance(last, MessageFailed) else None


def transcript_fields(exchange: Exchange) -> dict[str, Any]:
    """The columns of a transcript; nothing in them is secret."""
    capture, route, reading = exchange.capture, exchange.route, exchange.reading
    assert capture is not None  # noqa: S101
    redactor = Redactor([*exchange.secrets, *(route.upstream.secrets() if route else ())])
    events = redactor.events([event for read in capture.events for event in read])
    is_suspect = redactor.count > 0 or exchange.error is not None
    raw, raw_head, raw_left_out = capture.raw.take()
    if not raw and isinstance(exchange.error, UpstreamFailed):
        raw = exchange.error.raw
    sent, sent_head, sent_left_out = capture.sent.take()
    request, request_head, request_left_out = capture.request
    upstream_dialect = route.upstream.dialect if route else exchange.dialect
    return {
        "headers": {n: redactor.text(v[:500]) for n, v in exchange.headers.items()},
        "request": redactor.redact(request).decode("utf-8", "replace"),
        "tools": [_tool(tool) for tool in reading.tools] if reading else [],
        "reading": _reading(exchange),
        "raw": redactor.stream(raw, upstream_dialect, is_suspect=is_suspect),
        "arrivals": capture.arrivals,
        "events": [event_fields(event) for event in events],
        "sent": redactor.stream(sent, exchange.dialect, is_suspect=is_suspect),
        "left_out": {
            name: [head, count]
            for name, head, count in (
                ("raw", raw_head, raw_left_out),
                ("sent", sent_head, sent_left_out),
                ("request", request_head, request_left_out),
            )
            if count
        },
        "redactions": redactor.count,
    }


def event_fields(event: Event) -> list[Any]:
    """An event as stored: its name, and its fields."""
    return [type(event).__name__, msgspec.to_builtins(event)]


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
            message_id=f"msg_{reading['token']}",
            model=reading["model"],
            taken_ids=reading["taken_ids"],
        ),
        toolbox=Toolbox(
            [Tool(t["name"], None, msgspec.json.encode(t["schema"])) for t in tools],
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


def _reading(exchange: Exchange) -> dict[str, Any]:
    route, reading = exchange.route, exchange.reading
    if route is None or reading is None:
        return {}
    return {
        "client": exchange.dialect,
        "upstream": route.upstream.dialect,
        "format": route.format.format,
        "held_chars": route.limits.held_chars,
        "strict": route.strict,
        "markers": [list(pair) for pair in route.markers],
        "token": exchange.token,
        "model": exchange.model,
        "input_estimate": exchange.input_estimate or 1,
        "is_whole": reading.is_whole,
        "max_calls": reading.max_calls,
        "taken_ids": sorted(reading.taken_ids),
        "aliases": reading.aliases,
    }


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "schema": msgspec.json.decode(tool.schema)}
