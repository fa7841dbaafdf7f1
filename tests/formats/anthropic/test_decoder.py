"""Decoding of Anthropic streams, from Anthropic itself and from relays."""

import json

import pytest

from formats import (
    FailureKind,
    MessageEnd,
    MessageFailed,
    Notice,
    NoticeCode,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    merge_deltas,
)
from formats.anthropic.decoder import AnthropicDecoder
from formats.conversation import Text, ToolCall
from tests.support.anthropic_frames import EMPTY, block, event, message, part, text, tool
from tests.support.wire import decode, reply_from


def content_events(body):
    return merge_deltas(decode(body, upstream="anthropic"))[1:-1]


def test_text_thinking_and_calls_are_decoded():
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    body = message(
        block(0, thinking, {"type": "thinking_delta", "thinking": "Hm."},
              {"type": "signature_delta", "signature": "s"}),
        block(1, {"type": "redacted_thinking", "data": "d"}),
        block(2, EMPTY, text("Hi "), text("there")),
        block(3, tool(), part('{"a":'), part(" 1}")),
        block(4, tool("g", "toolu_2")),
        stop="tool_use",
    )  # fmt: skip
    assert content_events(body) == [
        ReasoningDelta("Hm."),
        ReasoningSignature("s"),
        ReasoningRedacted("d"),
        TextDelta("Hi there"),
        ToolCallStart("toolu_1", "f"),
        ToolCallDelta('{"a": 1}'),
        ToolCallEnd(),
        ToolCallStart("toolu_2", "g"),
        ToolCallDelta("{}"),
        ToolCallEnd(),
    ]


def test_usage_at_the_end_completes_the_usage_at_the_start():
    end = decode(message(block(0, EMPTY, text("x"))), upstream="anthropic")[-1]
    assert end == MessageEnd(StopReason.END_TURN, usage=Usage(input=9, output=7, cache_read=4))


def test_thinking_without_text_keeps_its_signature():
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    body = message(
        block(0, thinking, {"type": "signature_delta", "signature": "s"}),
        block(1, EMPTY, text("x")),
    )
    assert content_events(body)[0] == ReasoningSignature("s")


def test_arguments_in_the_block_start_are_used():
    assert content_events(message(block(0, tool(input={"a": 1}))))[1] == ToolCallDelta('{"a": 1}')


@pytest.mark.parametrize(
    "broken",
    [
        block(0, tool(), part('{"a":')),
        block(0, tool(), part('{"a":'), stop=False),
        block(0, tool(), part('{"a":1}{')),
        block(0, tool(), part("[1]")),
    ],
    ids=["cut", "left open", "two values", "no object"],
)
def test_a_broken_call_is_not_delivered(broken):
    reply = reply_from(message(broken, block(1, EMPTY, text("x"))), upstream="anthropic")
    assert reply.parts == [Text("x")]
    assert reply.failure
    assert reply.failure.kind is FailureKind.TRANSFORMATION


def test_a_call_cut_by_max_tokens_ends_in_max_tokens():
    body = message(block(0, tool(), part('{"a":')), stop="max_tokens")
    reply = reply_from(body, upstream="anthropic")
    assert (reply.failure, reply.stop_reason, reply.parts) == (None, StopReason.MAX_TOKENS, [])


def test_unknown_events_deltas_and_blocks_give_notices():
    body = message(
        event("surprise"),
        block(0, {"type": "server_tool_use", "id": "x", "name": "web_search"}, part('{"q":1}')),
        block(1, EMPTY, text("x"), {"type": "citations_delta"}),
    )
    assert [e for e in content_events(body) if isinstance(e, Notice)] == [
        Notice(NoticeCode.UNKNOWN_EVENT, "surprise"),
        Notice(NoticeCode.CONTENT_UNSUPPORTED, "server_tool_use"),
        Notice(NoticeCode.UNKNOWN_EVENT, "citations_delta"),
    ]


def test_an_error_event_fails_the_message():
    body = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    assert decode(body, upstream="anthropic") == [
        MessageFailed(FailureKind.OVERLOADED, "Overloaded")
    ]


@pytest.mark.parametrize("end", [b"", event("content_block_stop", index=0)])
def test_an_answer_without_a_stop_reason_fails(end):
    body = message(block(0, EMPTY, text("x"))).partition(b"event: message_delta")[0] + end
    assert isinstance(decode(body, upstream="anthropic")[-1], MessageFailed)


def test_an_answer_without_message_stop_is_complete():
    body = message(block(0, EMPTY, text("x"))).partition(b"event: message_stop")[0]
    assert isinstance(decode(body, upstream="anthropic")[-1], MessageEnd)


def test_a_usage_only_delta_does_not_clear_the_stop_reason():
    late = event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 8})
    body = message(block(0, EMPTY, text("x")), stop="max_tokens").replace(
        b"event: message_stop", late + b"event: message_stop"
    )
    end = decode(body, upstream="anthropic")[-1]
    assert isinstance(end, MessageEnd)
    assert (end.stop_reason, end.usage.output) == (StopReason.MAX_TOKENS, 8)


def test_a_whole_message_gives_the_same_events_as_a_stream():
    body = {
        "id": "msg_9",
        "type": "message",
        "model": "m",
        "content": [EMPTY | {"text": "Hi"}, tool(input={"a": 1.5})],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    events = AnthropicDecoder().read_whole(json.dumps(body).encode())
    assert events[1:-1] == [
        TextDelta("Hi"),
        ToolCallStart("toolu_1", "f"),
        ToolCallDelta('{"a": 1.5}'),
        ToolCallEnd(),
    ]


def test_native_calls_in_text_are_rescued_in_this_dialect_too():
    native = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    body = message(block(0, EMPTY, *(text(char) for char in native)))
    reply = reply_from(body, upstream="anthropic", format_name="qwen")
    assert reply.parts == [ToolCall("call_tok_1", "f", b'{"a": 1}')]
    assert reply.stop_reason is StopReason.TOOL_USE
