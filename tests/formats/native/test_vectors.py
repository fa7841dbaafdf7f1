"""Every vector gives the same message at any split, in every dialect, streamed and collected."""

from itertools import product

import pytest

from formats import (
    DIALECTS,
    FORMATS,
    Collector,
    Limits,
    MessageFailed,
    StopReason,
    collect,
    merge_deltas,
)
from formats.conversation import ToolCall
from tests.support.client_views import view
from tests.support.native_calls import (
    IN_DELTAS,
    IN_TEXT,
    expected,
    text_and_calls,
    vector_id,
    vectors_of,
)
from tests.support.wire import OPTIONS, cuts, decode, event_reads, relay, stream, text_from, toolbox


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_registered_format_has_vectors(format_name):
    assert vectors_of(format_name)


@pytest.mark.parametrize("vector", IN_TEXT, ids=vector_id)
def test_text_gives_the_expected_message_at_any_split(vector):
    whole = None
    is_large = len(vector["text"]) > 10_000
    for pieces in cuts(vector["text"], 1 if is_large else 4, step=13 if is_large else 1):
        events = decode(
            event_reads(text_from("openai", pieces, vector["channel"])),
            format_name=vector["format"],
            tools=toolbox(vector["tools"]),
        )
        if whole is None:
            whole = merge_deltas(events)
            reply = collect(events)
            assert text_and_calls(reply, vector["channel"]) == expected(vector)
            assert (reply.faults[0] if reply.faults else None) == vector["expect"]["error"]
            assert bool(reply.failure) is bool(reply.faults)
        assert merge_deltas(events) == whole


@pytest.mark.parametrize("vector", IN_TEXT, ids=vector_id)
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


@pytest.mark.parametrize("vector", IN_TEXT, ids=vector_id)
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
        assert text_and_calls(reply, vector["channel"]) == expected(vector)


CUT = [vector for vector in IN_TEXT if vector["expect"]["error"] == "truncated"]


@pytest.mark.parametrize("vector", CUT, ids=vector_id)
def test_a_call_cut_by_the_token_limit_ends_in_max_tokens_without_the_call(vector):
    events = decode(
        text_from("openai", [vector["text"]], vector["channel"], finish="length"),
        format_name=vector["format"],
        tools=toolbox(vector["tools"]),
    )
    reply = collect(events)
    assert reply.failure is None
    assert reply.stop_reason is StopReason.MAX_TOKENS
    assert text_and_calls(reply, vector["channel"]) == expected(vector)


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
@pytest.mark.parametrize("vector", IN_DELTAS, ids=vector_id)
def test_deltas_give_the_expected_message(vector, finish):
    body = stream(*vector["deltas"], finish=finish)
    reply = collect(decode(body, tools=toolbox(vector["tools"])))
    assert text_and_calls(reply, "content") == expected(vector)
    assert (reply.faults[0] if reply.faults else None) == vector["expect"]["error"]
    assert bool(reply.failure) is bool(vector["expect"]["error"])
    ids = [part.id for part in reply.parts if isinstance(part, ToolCall)]
    assert ids == [call["id"] for call in vector["expect"]["calls"]]
