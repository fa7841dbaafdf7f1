"""Every vector, at any cut, through every dialect, streamed and collected: the same message."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from formats import (
    DIALECTS,
    FORMATS,
    Collector,
    Limits,
    MessageFailed,
    Reply,
    StopReason,
    collect,
    merge_deltas,
)
from formats.conversation import Reasoning, Text, ToolCall
from tests.support.client_views import view
from tests.support.wire import OPTIONS, cuts, decode, relay, stream, text_from, toolbox

FIXTURES = Path(__file__).parents[2] / "fixtures" / "native"


def _filled(value: Any, big: dict[str, Any] | None, *, decoded: bool) -> Any:
    if big is None:
        return value
    if isinstance(value, str):
        unit = big.get("decoded", big["char"]) if decoded else big["char"]
        return value.replace("{BIG}", unit * big["count"])
    if isinstance(value, dict):
        return {key: _filled(item, big, decoded=decoded) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, big, decoded=decoded) for item in value]
    return value


def _vectors(format_name: str) -> list[dict[str, Any]]:
    vectors = []
    for line in (FIXTURES / f"{format_name}.jsonl").read_text().splitlines():
        vector = json.loads(line)
        big = vector.get("big")
        if "text_template" in vector:
            vector["text"] = _filled(vector["text_template"], big, decoded=False)
        vector["expect"] = _filled(vector["expect"], big, decoded=True)
        vectors.append(vector)
    return vectors


VECTORS = [vector for name in FORMATS for vector in _vectors(name)]
IN_TEXT = [vector for vector in VECTORS if "deltas" not in vector]
IN_DELTAS = [vector for vector in VECTORS if "deltas" in vector]


def _name(vector: dict[str, Any]) -> str:
    return str(vector["id"])


def seen(reply: Reply, channel: str) -> dict[str, Any]:
    """What a vector expects, as a reply has it."""
    run = Text if channel == "content" else Reasoning
    return {
        "text": "".join(part.text for part in reply.parts if isinstance(part, run)),
        "calls": [
            {"name": part.name, "arguments": json.loads(part.arguments)}
            for part in reply.parts
            if isinstance(part, ToolCall)
        ],
    }


def expected(vector: dict[str, Any]) -> dict[str, Any]:
    calls = [{"name": c["name"], "arguments": c["arguments"]} for c in vector["expect"]["calls"]]
    return {"text": vector["expect"]["text"], "calls": calls}


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_registered_format_has_vectors(format_name):
    assert _vectors(format_name)


@pytest.mark.parametrize("vector", IN_TEXT, ids=_name)
def test_text_gives_the_expected_message_at_any_cut(vector):
    whole = None
    for pieces in cuts(vector["text"], 1 if len(vector["text"]) > 10_000 else 4):
        events = decode(
            text_from("openai", pieces, vector["channel"]),
            format_name=vector["format"],
            tools=toolbox(vector["tools"]),
        )
        if whole is None:
            whole = merge_deltas(events)
            reply = collect(events)
            assert seen(reply, vector["channel"]) == expected(vector)
            assert (reply.faults[0] if reply.faults else None) == vector["expect"]["error"]
            assert bool(reply.failure) is bool(reply.faults)
        assert merge_deltas(events) == whole


@pytest.mark.parametrize("vector", IN_TEXT, ids=_name)
def test_every_dialect_streams_the_expected_message(vector):
    for client, upstream in product(DIALECTS, DIALECTS):
        body = relay(
            text_from(upstream, [vector["text"]], vector["channel"]),
            client=client,
            upstream=upstream,
            format_name=vector["format"],
            toolbox=toolbox(vector["tools"]),
        )
        got = view(body, client)
        text = got.text if vector["channel"] == "content" else got.reasoning
        assert {"text": text, "calls": got.calls} == expected(vector)
        if vector["expect"]["error"]:
            assert got.error == "format_transformation_error"
            assert got.stop is None
        else:
            assert got.error is None
            assert (got.stop in ("tool_use", "tool_calls")) is bool(vector["expect"]["calls"])


@pytest.mark.parametrize("vector", IN_TEXT, ids=_name)
def test_every_dialect_collects_the_expected_message(vector):
    collector = Collector()
    collector.feed(
        decode(
            text_from("openai", [vector["text"]], vector["channel"]),
            format_name=vector["format"],
            tools=toolbox(vector["tools"]),
        )
    )
    if vector["expect"]["error"]:
        assert isinstance(collector.reply.failure, MessageFailed)
        return
    for dialect in DIALECTS.values():
        body = dialect.encode_reply(collector.reply, OPTIONS)
        reply = collect(dialect.decoder(Limits()).read_whole(body))
        assert seen(reply, vector["channel"]) == expected(vector)


CUT = [vector for vector in IN_TEXT if vector["expect"]["error"] == "truncated"]


@pytest.mark.parametrize("vector", CUT, ids=_name)
def test_a_call_cut_by_the_token_limit_ends_in_max_tokens_without_the_call(vector):
    events = decode(
        text_from("openai", [vector["text"]], vector["channel"], finish="length"),
        format_name=vector["format"],
        tools=toolbox(vector["tools"]),
    )
    reply = collect(events)
    assert reply.failure is None
    assert reply.stop_reason is StopReason.MAX_TOKENS
    assert seen(reply, vector["channel"]) == expected(vector)


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
@pytest.mark.parametrize("vector", IN_DELTAS, ids=_name)
def test_deltas_give_the_expected_message(vector, finish):
    body = stream(*vector["deltas"], finish=finish)
    reply = collect(decode(body, tools=toolbox(vector["tools"])))
    assert seen(reply, "content") == expected(vector)
    assert (reply.faults[0] if reply.faults else None) == vector["expect"]["error"]
    assert bool(reply.failure) is bool(vector["expect"]["error"])
    ids = [part.id for part in reply.parts if isinstance(part, ToolCall)]
    assert ids == [call["id"] for call in vector["expect"]["calls"]]
