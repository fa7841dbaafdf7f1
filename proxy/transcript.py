"""A transcript's parts, ready to be stored: bounded and redacted. And its answer, read again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

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
from proxy.capture import Capture, Clipped, clip
from proxy.errors import UpstreamFailed
from proxy.exchange import Exchange
from proxy.redaction import Redactor, storable

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

_LAST_WORD = re.compile(rb"[\w.~+/=-]{1,512}\Z")
_FIRST_WORD = re.compile(rb"\A[\w.~+/=-]{1,512}")


@dataclass(frozen=True, slots=True)
class Again:
    """An answer that was read again."""

    events: list[Event]
    sent: bytes

    @property
    def failure(self) -> MessageFailed | None:
        last = self.events[-1] if self.events else None
        return last if isinstance(last, MessageFailed) else None


def transcript_fields(exchange: Exchange, redactor: Redactor) -> dict[str, Any]:
    """The columns of a transcript; nothing in them is secret."""
    capture, route, reading = exchange.capture, exchange.route, exchange.reading
    assert capture is not None  # noqa: S101
    events, left_out = _events(capture, redactor)
    raw = capture.raw.take()
    if not raw[0] and isinstance(exchange.error, UpstreamFailed):
        raw = clip(exchange.error.raw, capture.limit)
    # Text that was dropped or not understood is in no event.
    is_suspect = bool(redactor.count or exchange.error or exchange.notices or left_out)
    dialect = route.upstream.dialect if route else exchange.dialect
    clean_raw = _stream(raw, redactor, dialect, is_suspect=is_suspect)
    sent = _stream(capture.sent.take(), redactor, exchange.dialect, is_suspect=is_suspect)
    request = _bytes(capture.request, redactor)
    tools, tools_left_out = _tools(reading.tools if reading else (), redactor, capture.limit)
    return {
        "headers": {n: storable(redactor.text(v[:500])) for n, v in exchange.headers.items()},
        "request": storable(request[0].decode("utf-8", "replace")),
        "tools": tools,
        "reading": _reading(exchange, redactor, capture.limit),
        "raw": clean_raw[0],
        "arrivals": _arrivals(capture.arrivals, raw, clean_raw),
        "events": [event_fields(event) for event in events],
        "sent": sent[0],
        "left_out": {
            name: [head, count]
            for name, head, count in (
                ("raw", *clean_raw[1:]),
                ("sent", *sent[1:]),
                ("request", *request[1:]),
                ("events", *left_out),
                ("tools", 0, tools_left_out),
            )
            if count
        },
        "redactions": redactor.count,
    }


def event_fields(event: Event) -> list[Any]:
    """An event as stored: its name, and its fields."""
    fields = msgspec.to_builtins(event)
    for name, value in fields.items():
        if isinstance(value, str):
            fields[name] = storable(value)
    return [type(event).__name__, fields]


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


def _events(capture: Capture, redactor: Redactor) -> tuple[list[Event], tuple[int, int]]:
    """Merged events; how many are before the gap, and how many reads or characters it has."""
    head, tail = capture.events.take()
    left_out = capture.events.left_out
    if not left_out:
        head, tail = [*head, *tail], []
    head, tail = redactor.events(head), redactor.events(tail)
    size = _size([*head, *tail])
    if size <= capture.limit:
        return [*head, *tail], (len(head), left_out)
    first, last = _beginning(head, capture.limit // 2), _end(tail or head, capture.limit // 2)
    return [*first, *last], (len(first), left_out + size - _size([*first, *last]))


def _size(events: Sequence[Event]) -> int:
    return sum(len(text) for event in events for text in _texts(event).values())


def _texts(event: Event) -> dict[str, str]:
    # Names that the gateway gave are enumerations, and no plain strings.
    return {name: text for name, text in asdict(event).items() if type(text) is str}


def _beginning(events: Sequence[Event], room: int) -> list[Event]:
    """As much of the events as there is room for; the last of them may be cut."""
    kept: list[Event] = []
    for event in events:
        texts = _texts(event)
        kept.append(replace(event, **{n: t[:room] for n, t in texts.items()}) if texts else event)
        room -= _size([event])
        if room <= 0:
            break
    return kept


def _end(events: Sequence[Event], room: int) -> list[Event]:
    kept: list[Event] = []
    for event in reversed(events):
        texts = _texts(event)
        kept.append(replace(event, **{n: t[-room:] for n, t in texts.items()}) if texts else event)
        room -= _size([event])
        if room <= 0:
            break
    return kept[::-1]


def _stream(clipped: Clipped, redactor: Redactor, dialect: str, *, is_suspect: bool) -> Clipped:
    """The bytes of an answer, in either direction."""
    data, head, left_out = clipped
    if not left_out:
        clean = redactor.stream(data, dialect, is_suspect=is_suspect)
        return clean, len(clean), 0
    first, last = _seam(data[:head], data[head:])
    first, last = redactor.stream(first, dialect, is_suspect=True), redactor.tail(last)
    return first + last, len(first), left_out


def _bytes(clipped: Clipped, redactor: Redactor) -> Clipped:
    data, head, left_out = clipped
    if not left_out:
        clean = redactor.redact(data)
        return clean, len(clean), 0
    first, last = map(redactor.redact, _seam(data[:head], data[head:]))
    return first + last, len(first), left_out


def _seam(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Without the words that the gap may have cut: half a secret is not recognised as one."""
    return _LAST_WORD.sub(b"", head), _FIRST_WORD.sub(b"", tail)


def _arrivals(arrivals: list[tuple[int, float]], raw: Clipped, clean: Clipped) -> list[list[float]]:
    """Where each read begins in the bytes that are kept; none for what has no place there."""
    data, head, left_out = raw
    same = _common(data, clean[0])
    same_end = _common(data[same:][::-1], clean[0][same:][::-1])
    shift = len(clean[0]) - len(data)
    found: list[list[float]] = []
    for offset, moment in arrivals:
        if left_out and offset >= head:
            offset -= left_out
            if offset < head:
                continue
        if offset <= same:
            found.append([offset, moment])
        elif offset >= len(data) - same_end:
            found.append([offset + shift, moment])
    return found


def _common(one: bytes, other: bytes) -> int:
    """How many bytes they have in common at the beginning."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _tools(
    tools: Sequence[Tool], redactor: Redactor, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """The declared tools, and how many bytes of schemas were too many."""
    size = sum(len(tool.schema) for tool in tools)
    if size > limit:
        return [{"name": storable(t.name[:200]), "schema": {}} for t in tools[:1000]], size
    return [
        {"name": redactor.text(tool.name), "schema": _json(redactor.redact(tool.schema))}
        | ({"is_custom": True} if tool.is_custom else {})
        for tool in tools
    ], 0


def _reading(exchange: Exchange, redactor: Redactor, limit: int) -> dict[str, Any]:
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
        "model": storable(redactor.text(exchange.model[:1000])),
        "input_estimate": exchange.input_estimate or 1,
        "is_whole": reading.is_whole,
        "max_calls": reading.max_calls,
    }
    history = {"taken_ids": sorted(reading.taken_ids), "aliases": reading.aliases}
    encoded = redactor.redact(msgspec.json.encode(history))
    known: dict[str, Any] = _json(encoded) if len(encoded) <= limit else {}
    return {"taken_ids": [], "aliases": {}} | fields | known


def _json(data: bytes) -> dict[str, Any]:
    """A redacted object; empty if what was taken out was more than a part of a string."""
    try:
        value: dict[str, Any] = msgspec.json.decode(data.replace(b"\\u0000", b"\\u2400"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return value
