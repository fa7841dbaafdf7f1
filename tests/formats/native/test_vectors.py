"""Every vector gives the same message at any split, in every dialect, streamed and collected.

The events of the native transform are compared whole. A client's stream may end at the first failed
call, so after a fault only its beginning is compared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest

from formats import (
    DIALECTS,
    FORMATS,
    Collector,
    Event,
    Limits,
    MessageEnd,
    MessageFailed,
    MessageStart,
    ReasoningDelta,
    StopReason,
    TextDelta,
    collect,
    detect_format,
    merge_deltas,
)
from formats.conversation import ToolCall
from formats.native.rescue import CallRescue
from tests.support.client_views import error_type, view
from tests.support.native_vectors import (
    IN_DELTAS,
    IN_TEXT,
    VECTORS,
    expected,
    reasoning,
    text_and_calls,
    vector_id,
    vectors_of,
)
from tests.support.wire import OPTIONS, cuts, decode, relay, stream, text_from, toolbox


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_registered_format_has_vectors(format_name):
    assert vectors_of(format_name)


def test_every_vector_has_a_registered_format_and_an_id_of_its_own():
    assert {vector["format"] for vector in VECTORS} == set(FORMATS)
    assert len({vector["id"] for vector in VECTORS}) == len(VECTORS)


def test_only_ambiguous_vectors_differ_from_the_policy():
    assert all(vector["ambiguous"] for vector in VECTORS if "differs" in vector)


def test_the_format_of_a_vectors_model_is_detected():
    for vector in VECTORS:
        if "model" in vector:
            assert detect_format(vector["model"]).format == vector["format"], vector["id"]


def texts_of(format_name: str) -> list[dict[str, Any]]:
    return [vector for vector in IN_TEXT if vector["format"] == format_name]


@contextmanager
def named(vector: dict[str, Any]) -> Iterator[None]:
    """Name the vector in a failure.

    A test for each vector would cost more than reading it.
    """
    try:
        yield
    except AssertionError as error:
        error.add_note(f"The vector is {vector['id']}.")
        raise


def splits(vector: dict[str, Any]) -> Iterator[list[str]]:
    is_large = len(vector["text"]) > 10_000
    yield from cuts(vector["text"], 1 if is_large else 4, step=13 if is_large else 1)
    if "chunks" in vector:
        assert "".join(vector["chunks"]) == vector["text"]
        yield vector["chunks"]


def transformed(vector: dict[str, Any], pieces: list[str]) -> list[Event]:
    """Return what the native transform makes of these pieces, each in a read of its own."""
    native = FORMATS[vector["format"]]
    delta = TextDelta if vector["channel"] == "content" else ReasoningDelta
    deltas = [delta(piece) for piece in pieces if piece]
    reads: list[Event] = [MessageStart("", ""), *deltas, MessageEnd(StopReason.END_TURN)]
    if native is None:
        return reads
    rescue = CallRescue(native, toolbox(vector["tools"]))
    return [event for read in reads for event in rescue.feed([read])]


@pytest.mark.parametrize("format_name", FORMATS)
def test_text_gives_the_expected_message_at_any_split(format_name):
    for vector in texts_of(format_name):
        with named(vector):
            whole = None
            for pieces in splits(vector):
                events = transformed(vector, pieces)
                if whole is None:
                    whole = merge_deltas(events)
                    reply = collect(events)
                    tools = toolbox(vector["tools"])
                    assert text_and_calls(reply, vector["channel"], tools) == expected(vector)
                    assert (reply.faults[0] if reply.faults else None) == vector["expect"]["error"]
                    if "reasoning" in vector["expect"]:
                        assert reasoning(reply) == vector["expect"]["reasoning"]
                assert merge_deltas(events) == whole


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_dialect_streams_the_expected_message(format_name):
    for vector in texts_of(format_name):
        with named(vector):
            wanted = expected(vector)
            for client, upstream in product(DIALECTS, DIALECTS):
                for pieces in list(splits(vector))[:3:2]:
                    body = relay(
                        text_from(upstream, pieces, vector["channel"]),
                        client=client,
                        upstream=upstream,
                        format_name=vector["format"],
                        toolbox=toolbox(vector["tools"]),
                    )
                    got = view(body, client)
                    text = got.text if vector["channel"] == "content" else got.reasoning
                    if vector["expect"]["error"]:
                        assert got.error == error_type("format_transformation_error", client)
                        assert got.stop is None
                        assert wanted["text"].startswith(text)
                        assert got.calls == wanted["calls"][: len(got.calls)]
                    else:
                        assert got.error is None
                        assert {"text": text, "calls": got.calls} == wanted
                        assert (got.stop in ("tool_use", "tool_calls")) is bool(wanted["calls"])


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_dialect_collects_the_expected_message(format_name):
    for vector in texts_of(format_name):
        with named(vector):
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
                continue
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
