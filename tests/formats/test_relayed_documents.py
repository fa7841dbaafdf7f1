"""A relayed document means to a strict client what it means to the gateway.

A whole answer of the client's dialect is passed through as the upstream wrote it. Clients read it
by other rules than the gateway: they need its type, the id of a call and the role, know OpenAI's
finish reasons only, and take another value of a member that is there twice. What one of them could
read in another way is written again by the encoder.
"""

import json
from random import Random
from typing import Any

import pytest

from formats import DIALECTS, Identity, MessageFailed, TextDelta, Toolbox, build_pipeline, collect
from formats.conversation import ToolCall
from tests.support.broken_json import FINISHES, VALUES, places
from tests.support.strict_clients import read_document_strictly
from tests.support.upstream_answers import Call, document
from tests.support.wire import OPTIONS

IDENTITY = Identity(token="tok", message_id="msg_1", model="m")
CALLS = [Call("f", {"a": 1}, "call_1"), Call("g", {"b": [2]}, "call_2")]
ODD_BLOCKS: list[Any] = [
    {},
    {"type": "vendor", "text": "x"},
    {"type": "tool_use"},
    {"type": "text"},
    {"type": "text", "text": None},
    {"type": "thinking", "thinking": "x"},
    {"type": "redacted_thinking"},
    {"type": "tool_use", "id": "t", "name": "h", "input": "{}"},
    {"type": "tool_use", "id": "t", "name": "h", "input": '{"a":'},
    {"type": "tool_use", "id": "call_1", "name": "h", "input": {}},
    {"id": "t", "type": "function", "function": {"name": "h", "arguments": "{"}},
    {"id": "t", "type": "function", "function": {"name": "h", "arguments": ""}},
    {"id": "t", "type": "function", "function": {"name": "h", "arguments": {"a": 1}}},
    {"id": "t", "type": "custom", "custom": {"name": "h", "input": "x"}},
    {"type": "function", "function": {"name": "h", "arguments": "{}"}},
]


class Pairs(dict[str, Any]):
    """An object that is written with a member twice."""

    def __init__(self, members: dict[str, Any], name: str, first: Any) -> None:
        super().__init__(members)
        self._items = [(name, first), *members.items()]

    def items(self) -> Any:
        return self._items


def broken(answer: dict[str, Any], random: Random) -> bytes:
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        paths = [p for p in places(answer) if p[-1] != "name" and "input" not in p[:-1]]
        *path, key = random.choice(paths)
        inner: Any = answer
        for step in path:
            inner = inner[step]
        match random.randrange(5):
            case 0:
                inner[key] = random.choice(VALUES)
            case 1:
                del inner[key]
            case 2 if isinstance(key, str):
                inner[key] = random.choice(FINISHES)
            case 3 if isinstance(inner, list):
                inner.insert(key, random.choice(ODD_BLOCKS))
            case 4 if isinstance(key, str):
                pairs = Pairs(inner, key, random.choice([*VALUES, *FINISHES]))
                if not path:
                    return json.dumps(pairs).encode()
                outer: Any = answer
                for step in path[:-1]:
                    outer = outer[step]
                outer[path[-1]] = pairs
                break  # `places` would see the member once
    return json.dumps(answer).encode()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_w16_a_strict_client_reads_from_a_broken_document_what_the_gateway_reads(dialect, seed):
    for number in range(300):
        random = Random(f"{dialect}-{seed}-{number}")
        text, calls = random.choice([("Oh dear.", CALLS), ("", CALLS), ("Oh dear.", [])])
        body = broken(json.loads(document(dialect, text, calls)), random)
        pipeline = build_pipeline(
            client=dialect,
            upstream=dialect,
            format_name="standard",
            identity=IDENTITY,
            toolbox=Toolbox(()),
            options=OPTIONS,
        )
        events = pipeline.decode_whole(body)
        if isinstance(events[-1], MessageFailed):
            continue
        pipeline.encode(events)
        reply = collect(events)
        sent = body if pipeline.is_passthrough else DIALECTS[dialect].encode_reply(reply, OPTIONS)
        place = f"seed {seed}, number {number}: {body!r}\n{sent!r}"
        try:
            read = read_document_strictly(sent, dialect)
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            raise AssertionError(place) from error
        expected = [part for part in reply.parts if isinstance(part, ToolCall)]
        assert read.text == "".join(e.text for e in events if isinstance(e, TextDelta)), place
        assert read.calls == [(c.name, json.loads(c.arguments)) for c in expected], place


def test_an_unbroken_document_passes_byte_for_byte():
    for dialect in DIALECTS:
        pipeline = build_pipeline(
            client=dialect, upstream=dialect, format_name="standard", identity=IDENTITY
        )
        pipeline.encode(pipeline.decode_whole(document(dialect, "Hi", CALLS)))
        assert pipeline.is_passthrough
