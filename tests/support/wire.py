"""Builds streams of upstreams, cuts them, and runs them through pipelines."""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from formats import (
    DIALECTS,
    Event,
    Identity,
    Limits,
    MessageEnd,
    MessageStart,
    ReasoningDelta,
    Reply,
    ReplyOptions,
    StopReason,
    TextDelta,
    Tool,
    Toolbox,
    Usage,
    build_pipeline,
    collect,
)
from tests.support.operator_formats import reading

IDENTITY = Identity(token="tok")
CREATED = 1_700_000_000
OPTIONS = ReplyOptions(created=CREATED)
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": "m"}


def data(payload: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(payload, ensure_ascii=False).encode()


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> bytes:
    """Return one chunk of an OpenAI stream, with every field that OpenAI requires."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return data({**HEAD, "choices": [choice], **fields})


def stream(*deltas: dict[str, Any], finish: str | None = "stop", done: bool = True) -> bytes:
    """Return a complete OpenAI stream."""
    body = b"".join(chunk(delta) for delta in deltas)
    if finish is not None:
        body += chunk({}, finish)
    return body + (b"data: [DONE]\n\n" if done else b"")


def entry(
    index: int | None = None,
    call_id: str | None = None,
    name: str | None = None,
    arguments: str | None = None,
) -> dict[str, Any]:
    """One entry of `tool_calls`, with only the fields that are given."""
    function = {"name": name, "arguments": arguments}
    fields = {"index": index, "id": call_id}
    present = {key: value for key, value in fields.items() if value is not None}
    return present | {"function": {k: v for k, v in function.items() if v is not None}}


def calls(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(entries)}


def anthropic_stream(events: Sequence[Event]) -> bytes:
    """Return the events as an Anthropic upstream sends them."""
    return DIALECTS["anthropic"].encoder(OPTIONS).feed(events)


def text_from(upstream: str, pieces: Sequence[str], channel: str, finish: str = "stop") -> bytes:
    """Return the stream of an upstream that writes these pieces into one channel."""
    if upstream == "openai":
        field = "content" if channel == "content" else "reasoning_content"
        return stream(*({field: piece} for piece in pieces), finish=finish)
    delta = TextDelta if channel == "content" else ReasoningDelta
    reason = StopReason.MAX_TOKENS if finish == "length" else StopReason.END_TURN
    return anthropic_stream(
        [
            MessageStart("msg_1", "m", Usage(input=1)),
            *(delta(piece) for piece in pieces if piece),
            MessageEnd(reason, usage=Usage(input=1, output=1)),
        ]
    )


def toolbox(tools: Sequence[dict[str, Any]]) -> Toolbox:
    functions = [tool["function"] for tool in tools]
    return Toolbox(Tool(f["name"], None, json.dumps(f["parameters"]).encode()) for f in functions)


def decode(
    body: bytes | Sequence[bytes],
    *,
    upstream: str = "openai",
    format_name: str = "standard",
    tools: Toolbox | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> list[Event]:
    """Return the events that a pipeline decodes from an upstream's answer."""
    pipeline = build_pipeline(
        client="anthropic",
        upstream=upstream,
        **reading(format_name),
        identity=options.pop("identity", IDENTITY),
        toolbox=tools,
        limits=limits or Limits(),
        **options,
    )
    events: list[Event] = []
    for part in [body] if isinstance(body, bytes) else body:
        events += pipeline.decode(part)
    return events + pipeline.decode_end()


def reply_from(body: bytes | Sequence[bytes], **options: Any) -> Reply:
    return collect(decode(body, **options))


def relay(
    body: bytes | Sequence[bytes], *, client: str, upstream: str = "openai", **options: Any
) -> bytes:
    """Return the bytes that a client receives."""
    pipeline = build_pipeline(
        client=client,
        upstream=upstream,
        **reading(options.pop("format_name", "standard")),
        identity=options.pop("identity", IDENTITY),
        **options,
    )
    parts = [body] if isinstance(body, bytes) else body
    return b"".join([pipeline.feed(part) for part in parts]) + pipeline.close()


def cuts(text: str, count: int = 6, *, step: int = 1) -> Iterator[list[str]]:
    """Yield the text whole, in pieces of `step` characters, and cut at reproducible places."""
    yield [text]
    yield [text[at : at + step] for at in range(0, len(text), step)]
    random = Random(len(text))
    for _ in range(count):
        places = sorted(random.sample(range(len(text) + 1), min(len(text), random.randint(1, 9))))
        yield [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def event_reads(body: bytes) -> list[bytes]:
    """Split a stream into reads of one event each: decoders join the deltas of one read."""
    return [event + b"\n\n" for event in body.split(b"\n\n") if event]


def byte_cuts(body: bytes, count: int = 6) -> Iterator[list[bytes]]:
    for pieces in cuts(body.decode("latin-1"), count):
        yield [piece.encode("latin-1") for piece in pieces]


def nested(levels: int, opening: bytes = b'{"a":') -> bytes:
    return opening * levels + b"1" + (b"}" if opening[:1] == b"{" else b"]") * levels
