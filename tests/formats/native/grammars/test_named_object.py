"""Calls as a header with the name, and a JSON object: Mistral's from tokenizer v11 on."""

import json

import pytest

from formats import FORMATS, CallFault, Limits, TextDelta, Tool, Toolbox
from formats.conversation import Text, ToolCall
from formats.events import ToolCallDelta
from formats.native.rescue import CallRescue
from tests.support.wire import cuts, event_reads, relay, reply_from, stream

TOOLS = Toolbox([Tool("f", None, b"{}")])


def rescue():
    native = FORMATS["mistral"]
    assert native
    return CallRescue(native, TOOLS, Limits())


def reply_to(text):
    """The reply to a text, which must be the same at several splits."""
    replies = [
        reply_from(
            event_reads(stream(*({"content": piece} for piece in pieces))),
            format_name="mistral",
            tools=TOOLS,
        )
        for pieces in cuts(text)
    ]
    assert all(reply.parts == replies[0].parts for reply in replies)
    return replies[0]


def test_the_arguments_of_a_call_stream_in_pieces():
    transform = rescue()
    transform.feed([TextDelta('[TOOL_CALLS]f[ARGS]{"a": "')])
    for _ in range(400):
        events = transform.feed([TextDelta("x" * 100)])
        assert events == [ToolCallDelta("x" * 100)]


def test_an_id_of_the_model_reaches_the_client():
    text = "[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{}[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{}"
    body = relay(
        stream({"content": text}),
        client="openai",
        upstream="openai",
        format_name="mistral",
        toolbox=TOOLS,
    )
    calls = [
        entry["id"]
        for line in body.decode().splitlines()
        if line.startswith("data: {")
        for choice in json.loads(line.removeprefix("data: "))["choices"]
        for entry in choice["delta"].get("tool_calls", ())
        if entry.get("id")
    ]
    assert calls[0] == "a1B2c3D4e"
    assert len(set(calls)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "The token [TOOL_CALLS] opens a call, [ARGS] its arguments.",
        "[TOOL_CALLS] is followed by a name {or an array}.",
        "It ends with [TOOL_CALLS].",
        "It ends with [TOOL_CALLS] word",
        "[TOOL_CALLS]" + "a long word without end" * 20,
        "`[TOOL_CALLS]f[ARGS]{}`",
    ],
)
def test_prose_about_the_token_stays_text(text):
    assert reply_to(text).parts == [Text(text)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[TOOL_CALLS]f", CallFault.TRUNCATED),
        ("[TOOL_CALLS]f[CALL_ID]a1", CallFault.TRUNCATED),
        ('[TOOL_CALLS]f[ARGS]{"a"', CallFault.TRUNCATED),
        ("[TOOL_CALLS]f g[ARGS]{}", CallFault.BAD_HEADER),
        ("[TOOL_CALLS][ARGS]{}", CallFault.MISSING_NAME),
        ("[TOOL_CALLS]f[ARGS]none", CallFault.INVALID_JSON),
        ("[TOOL_CALLS]f[ARGS][1]", CallFault.NON_OBJECT_ARGS),
    ],
)
def test_a_broken_call_is_a_fault_and_no_text(text, fault):
    reply = reply_to(text)
    assert reply.faults == [fault]
    assert reply.parts == []


def test_a_call_after_a_broken_one_is_read():
    reply = reply_to("[TOOL_CALLS]f[ARGS]{a}[TOOL_CALLS]f[ARGS]{} bye")
    assert reply.faults == [CallFault.INVALID_JSON]
    assert [type(part) for part in reply.parts] == [ToolCall, Text]
