"""A relayed stream means to a strict client what it means to the gateway.

The upstream's bytes are passed through, and clients read them by other rules than the gateway: by
the name of an event, by the order of blocks, by the first end. What one of them could read in
another way is written again by the encoder. The streams here are broken in ways that real relays
break them: events are lost, repeated, exchanged, renamed or joined, fields are missing or of
another type, and lines end differently.
"""

import json
from random import Random

import pytest

from formats import DIALECTS, MessageFailed, TextDelta, Toolbox, build_pipeline, collect
from formats.conversation import ToolCall
from tests.support.broken_json import FINISHES, VALUES, places
from tests.support.strict_clients import read_strictly
from tests.support.upstream_answers import Call, stream
from tests.support.wire import IDENTITY, OPTIONS

CALLS = [Call("f", {"a": 1}, "call_1"), Call("g", {"b": [2]}, "call_2")]
STREAMS = {dialect: [*stream(dialect, "Oh dear me.", CALLS)] for dialect in DIALECTS}
ODD = [
    b": comment\n\n", b"retry: 5\n\n", b"id: 7\n\n", b"id: 7\n", b"\n", b"\r\n", b"data:\n\n", b"data\n\n",
    b"data: null\n\n", b"data: []\n\n", b"data: {}\n\n", b"data: [DONE]\n\n", b"data: [DONE] x\n\n", b" data: x\n",
    b"event: ping\n\n", b"event: ping\n", b"event: error\n", b"event: thread.x\n", b"event: \n", b"\xef\xbb\xbf",
    b'event: ping\ndata: {"type":"ping"}\n\n', b'event: error\ndata: {"type":"ping"}\n\n',
    b'event: message_stop\ndata: {"type":"ping"}\n\n', b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    b'event: vendor\ndata: {"type":"vendor","choices":[]}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":{"output_tokens":3}}\n\n',
]  # fmt: skip
NAMES = [
    b"event: ping",
    b"event: message_stop",
    b"event: content_block_stop",
    b"event:",
    b"event: x",
]


def with_other_value(event: bytes, random: Random) -> bytes:
    start, mark, text = event.partition(b"data: {")
    try:
        value = json.loads(mark[6:] + text)
    except ValueError:
        return event
    paths = [path for path in places(value) if path[-1] not in ("name", "stop_reason")]
    if not paths:
        return event
    *path, key = random.choice(paths)
    inner = value
    for step in path:
        inner = inner[step]
    inner[key] = random.choice(VALUES)
    if isinstance(inner, dict) and random.random() < 0.2:
        del inner[key]
    return b"%bdata: %b\n\n" % (start, json.dumps(value).encode())


def broken(events: list[bytes], random: Random) -> list[bytes]:
    events = [*events]
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        at, other = random.randrange(len(events)), random.randrange(len(events))
        event = events[at]
        match random.randrange(9):
            case 0 if len(events) > 1:
                del events[at]
            case 1:
                events.insert(other, event)
            case 2:
                events[at], events[other] = events[other], event
            case 3:
                events.insert(random.choice([at, len(events)]), random.choice(ODD))
            case 4:
                lines = event.split(b"\n")
                name = random.choice(NAMES)
                events[at] = b"\n".join(name if x.startswith(b"event") else x for x in lines)
            case 5:
                old, new = random.choice([(b": ", b":"), (b": ", b":  "), (b"\n", b" \n")])
                events[at] = event.replace(old, new, 1)
            case 6:
                events[at] = event.replace(b", ", b", \ndata: ", 1)
            case 7:
                events[at] = event.rstrip(b"\n") + b"\n"  # joined with the next
            case 8:
                events[at] = with_other_value(event, random)
    return events


def reads(events: list[bytes], random: Random) -> list[bytes]:
    """Return the bytes as they arrive: whole, by event, or cut anywhere, and maybe truncated."""
    ending = random.choice([b"\n", b"\n", b"\n", b"\n", b"\r\n", b"\r"])
    events = [event.replace(b"\n", ending) for event in events]
    if random.random() < 0.5:
        return events
    body = b"".join(events)
    if random.random() < 0.5:
        body = body[: random.randrange(max(1, len(body) - 200), len(body) + 1)]
    cuts = sorted(random.choices(range(len(body) + 1), k=random.randrange(8)))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if a < b]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_w2_a_strict_client_reads_from_a_broken_stream_what_the_gateway_reads(dialect, seed):
    """W2: a relayed stream has one legal end, and means the same to the client as to the audit."""
    for number in range(150):
        random = Random(f"{dialect}-{seed}-{number}")
        parts = reads(broken(STREAMS[dialect], random), random)
        pipeline = build_pipeline(
            client=dialect,
            upstream=dialect,
            format_name="standard",
            identity=IDENTITY,
            toolbox=Toolbox(()),
            options=OPTIONS,
        )
        events, sent = [], b""
        for part in parts:
            if not pipeline.done:
                events += (new := pipeline.decode(part))
                sent += pipeline.encode(new)
        if not pipeline.done:
            events += (new := pipeline.decode_end())
            sent += pipeline.encode(new)
        place = f"seed {seed}, number {number}: {parts}\n{sent!r}"
        try:
            read = read_strictly(sent, dialect)
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise AssertionError(place) from error
        has_failed = isinstance(events[-1], MessageFailed)
        assert has_failed == (read.stop == "error"), place
        if not has_failed:
            text = "".join(event.text for event in events if isinstance(event, TextDelta))
            calls = [part for part in collect(events).parts if isinstance(part, ToolCall)]
            assert read.text == text, place
            assert read.calls == [(c.name, json.loads(c.arguments)) for c in calls], place


def test_an_unbroken_stream_passes_byte_for_byte():
    for dialect, events in STREAMS.items():
        pipeline = build_pipeline(
            client=dialect, upstream=dialect, format_name="standard", identity=IDENTITY
        )
        sent = b"".join(map(pipeline.feed, events))
        assert pipeline.is_passthrough
        assert sent.startswith(b"".join(events[:-4]))


@pytest.mark.parametrize("finish", FINISHES)
def test_w16_a_client_gets_a_finish_reason_that_openai_knows(finish):
    """W16: clients compare it with `tool_calls`, and run no call after `tool_use`."""
    body = b"".join(STREAMS["openai"]).replace(b'"tool_calls"}', b'"%b"}' % finish.encode())
    pipeline = build_pipeline(
        client="openai", upstream="openai", format_name="standard", identity=IDENTITY
    )
    read = read_strictly(pipeline.feed(body), "openai")
    assert read.stop in ("tool_calls", "function_call", "length", "content_filter")
