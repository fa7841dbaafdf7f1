"""Fuzzing targets: functions of bytes that raise AssertionError if an input breaks a law.

There is a target for every dialect and format in the registries, so that a new one is fuzzed at
once. The laws: nothing but a FormatsError is raised, and only if a request is rejected; events come
in the order of the event table; any split gives the same result; memory and time are limited.
"""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from random import Random
from time import process_time
from typing import Any

import msgspec

from formats import (
    DIALECTS,
    FORMATS,
    DefinitionError,
    Event,
    FailureKind,
    FormatsError,
    Limits,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Pipeline,
    ReasoningDelta,
    State,
    StopReason,
    Target,
    TextDelta,
    Tool,
    Toolbox,
    build_pipeline,
    estimate_tokens,
    merge_deltas,
    next_state,
    read_definition,
)
from formats.native.rescue import CallRescue
from formats.registry import defined_format
from formats.sse import EventDecoder
from tests.support.definitions import hostile_definition, text_made_of
from tests.support.operator_formats import OPERATOR_FORMATS, reading
from tests.support.wire import IDENTITY, event_reads, text_from

TOOLS = Toolbox(
    Tool(name, None, b'{"type":"object","properties":{"a":{"type":"integer"},"b":{}}}')
    for name in ("ping", "ferry_times", "get_tide")
)
LIMITS = [Limits(), Limits(line_bytes=1000, event_bytes=2000, held_chars=1500)]
TARGETS_OF_REQUESTS = [
    Target(),
    Target(model="other", is_anthropic=False, images=False, files=False, max_tools=2),
    Target(native_ids="kimi", reasoning_field="reasoning_content", reasoning_request="openrouter"),
    Target(takes_thinking=False, keeps_reasoning=True, reasoning_request="effort", max_tokens=5),
]
_LONGEST = 20_000
_BYTE_BY_BYTE = 200
"""Inputs up to this length are also fed byte by byte."""
SECONDS_PER_BYTE = 400e-6
"""Limit of CPU time for all splits together, with an instrumented interpreter."""
_BASE_SECONDS = 2.0
"""CPU time that any input may take in addition."""


def splits(data: bytes) -> Iterator[list[bytes]]:
    """Split the input at random positions that depend only on the input."""
    random = Random(blake2b(data, digest_size=8).digest())
    for count in (1, 5):
        places = sorted(random.randrange(len(data) + 1) for _ in range(count))
        yield [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    if len(data) <= _BYTE_BY_BYTE:
        yield [data[at : at + 1] for at in range(len(data))]


def timed(check: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        data = data[:_LONGEST]
        start = process_time()
        check(data)
        spent = process_time() - start
        limit = _BASE_SECONDS + SECONDS_PER_BYTE * len(data)
        assert spent < limit, f"{spent:.1f} s for {len(data)} bytes"

    return run


def _decoded(pipeline: Pipeline, parts: list[bytes], limits: Limits, client: str) -> list[Event]:
    events: list[Event] = []
    sent = b""
    for part in parts:
        events += (new := pipeline.decode(part))
        sent += pipeline.encode(new)
    if len(parts) == 2:  # once per input, because measuring costs more than decoding
        held = _held(pipeline, _shared_formats())
        limit = 4 * (limits.event_bytes + limits.held_chars) + len(parts[-1]) + 16384
        assert held <= limit, f"{held} characters are held"
    events += (new := pipeline.decode_end())
    sent += pipeline.encode(new)
    state = State.START
    for event in events:
        state = next_state(state, event)
        is_defect = isinstance(event, MessageFailed) and event.kind is FailureKind.INTERNAL
        assert not is_defect, event
    assert state is State.DONE, "the message has no end"
    assert sent, f"the {client} client got nothing"
    return merge_deltas(events)


def _shared_formats() -> set[int]:
    """Return the ids of the formats, which all pipelines share."""
    defined = (defined_format(each.text) for each in OPERATOR_FORMATS.values())
    return {id(native) for native in (*FORMATS.values(), *defined)}


def _held(value: object, seen: set[int] | None = None) -> int:
    """Count the characters and bytes that an object of formats holds, directly or indirectly."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    match value:
        case str() | bytes() | bytearray():
            return len(value)
        case dict():
            return sum(_held(part, seen) for pair in value.items() for part in pair)
        case list() | tuple() | set() | frozenset():
            return sum(_held(part, seen) for part in value)
    if not type(value).__module__.startswith("formats.") or isinstance(value, type):
        return 0
    slots = {name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())}
    names = slots | set(getattr(value, "__dict__", {}))
    return sum(_held(getattr(value, name, None), seen) for name in names)


def answer(data: bytes, *, upstream: str, format_name: str) -> None:
    """Decode an upstream's answer for clients of both dialects."""
    limits = LIMITS[len(data) % 2]
    for client in DIALECTS:
        make = partial(
            build_pipeline,
            client=client,
            upstream=upstream,
            identity=IDENTITY,
            toolbox=TOOLS,
            limits=limits,
            **reading(format_name),
        )
        whole = _decoded(make(), [data], limits, client)
        for parts in splits(data):
            assert _decoded(make(), parts, limits, client) == whole, f"another split: {parts}"
        make().decode_whole(data)
        _check_tiny_limits(data, upstream, format_name)


def _check_tiny_limits(body: bytes, upstream: str, format_name: str) -> None:
    """Check that no error escapes, and that a message ends, with limits that every input exceeds."""
    limits = Limits(held_chars=len(body) % 50, header_chars=5, json_depth=2)
    pipeline = build_pipeline(
        client="openai",
        upstream=upstream,
        **reading(format_name),
        identity=IDENTITY,
        toolbox=TOOLS,
        limits=limits,
    )
    _decoded(pipeline, event_reads(body) or [b""], limits, "openai")


def text(data: bytes, *, format_name: str) -> None:
    """Read a model's text, as content or reasoning, in pieces."""
    written = data.decode("utf-8", "replace")
    channel = "reasoning" if data[:1] == b"r" else "content"
    finish = "length" if data[1:2] == b"l" else "stop"
    for upstream in DIALECTS:
        seen: list[Event] | None = None
        for parts in [[data], *splits(data)]:
            at, pieces = 0, []
            for part in parts:
                size = round(len(part) / max(1, len(data)) * len(written)) or 1
                pieces.append(written[at : at + size])
                at += size
            pieces.append(written[at:])
            body = text_from(upstream, [p for p in pieces if p], channel, finish)
            pipeline = build_pipeline(
                client="anthropic",
                upstream=upstream,
                **reading(format_name),
                identity=IDENTITY,
                toolbox=TOOLS,
            )
            limits = Limits(line_bytes=len(body), event_bytes=len(body))
            events = _decoded(pipeline, event_reads(body), limits, "anthropic")
            _check_tiny_limits(body, upstream, format_name)
            seen = events if seen is None else seen
            assert events == seen, f"another split: {pieces}"


def definition(data: bytes) -> None:
    """Read a hostile definition, and if it is accepted, a text that is made of its markers."""
    random = Random(blake2b(data, digest_size=8).digest())
    document = hostile_definition(random, data)
    try:
        read = read_definition(document)
    except DefinitionError as error:
        _check_problems(error)
        return
    assert read_definition(msgspec.json.decode(read.text)).text == read.text
    for delta in (TextDelta, ReasoningDelta):
        text = text_made_of(document, random)
        places = sorted(random.randrange(len(text) + 1) for _ in range(3))
        pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        seen: list[Event] | None = None
        for split in ([text], list(text), pieces):
            rescue = CallRescue(read.native, TOOLS)
            deltas = [delta(piece) for piece in split if piece]
            reads = [MessageStart("", ""), *deltas, MessageEnd(StopReason.END_TURN)]
            events = merge_deltas([event for each in reads for event in rescue.feed([each])])
            seen = events if seen is None else seen
            assert events == seen, f"another split: {split}"


def _check_problems(error: DefinitionError) -> None:
    assert error.problems, "a refusal without a reason"
    assert all(message and path.isprintable() for path, message in error.problems)


def request(data: bytes, *, dialect: str) -> None:
    """Parse a client's request and render it for every kind of upstream."""
    try:
        conversation = DIALECTS[dialect].parse(data)
    except FormatsError as error:
        _check_refusal(error)
        return
    assert DIALECTS[dialect].parse(data) == conversation
    assert estimate_tokens(conversation) >= 0
    for name, target in [(name, t) for name in DIALECTS for t in TARGETS_OF_REQUESTS]:
        try:
            rendered = DIALECTS[name].render(conversation, target)
        except FormatsError as error:
            _check_refusal(error)
            continue
        assert isinstance(msgspec.json.decode(rendered.body), dict)
        assert DIALECTS[name].render(conversation, target) == rendered


def _check_refusal(error: FormatsError) -> None:
    assert str(error), "a refusal without a reason"


def server_sent_events(data: bytes) -> None:
    """Decode server-sent events at any split."""
    limits = LIMITS[len(data) % 2]

    def read(parts: list[bytes]) -> tuple[list[Any], str]:
        decoder, events = EventDecoder(limits), []
        try:
            for part in parts:
                events += decoder.feed(part)
                if decoder.error is not None:
                    return events, str(decoder.error)
            assert _held(decoder) <= limits.event_bytes + 16
            events += decoder.close()
        except FormatsError as error:
            return events, str(error)
        return events, str(decoder.error or "")

    whole = read([data])
    for parts in splits(data):
        assert read(parts) == whole, f"another split: {parts}"


TARGETS: dict[str, Callable[[bytes], None]] = {
    "sse": timed(server_sent_events),
    **{f"request-{name}": timed(partial(request, dialect=name)) for name in DIALECTS},
    **{
        f"answer-{name}-{format_name}": timed(
            partial(answer, upstream=name, format_name=format_name)
        )
        for name in DIALECTS
        for format_name in FORMATS
    },
    **{
        f"text-{name}": timed(partial(text, format_name=name))
        for name in (*FORMATS, *OPERATOR_FORMATS)
    },
    "definition": timed(definition),
}
