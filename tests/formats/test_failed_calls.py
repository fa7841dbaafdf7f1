"""On a client's stream, nothing but the error follows a failed call."""

import pytest

from formats import (
    DIALECTS,
    CallFault,
    MessageEnd,
    MessageFailed,
    MessageStart,
    NoticeCode,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from formats.conversation import ToolCall
from tests.support.client_views import check_end, error_type, view
from tests.support.wire import (
    anthropic_stream,
    calls,
    chunk,
    entry,
    event_reads,
    relay,
    reply_from,
    stream,
)

LATER = [TextDelta("Later."), ToolCallStart("c2", "later"), ToolCallDelta("{}"), ToolCallEnd()]


def call(number, name, arguments):
    """Return the events of an Anthropic upstream's block, as it frames complete calls."""
    return [ToolCallStart(f"c{number}", name), ToolCallDelta(arguments), ToolCallEnd()]


def answer(upstream, arguments, *, later=True, cut=False):
    """Return an answer with a complete call, a call with these arguments, and another."""
    if upstream == "anthropic":
        events = [
            MessageStart("m", "m"),
            *call(0, "before", "{}"),
            *call(1, "broken", arguments),
            *(LATER if later else ()),
            MessageEnd(StopReason.MAX_TOKENS if cut else StopReason.TOOL_USE),
        ]
        return anthropic_stream(events)
    deltas = [
        calls(entry(0, "c0", "before", "{}")),
        calls(entry(1, "c1", "broken", arguments)),
        *([calls(entry(2, "c2", "later", "{}"))] if later else ()),
    ]
    return stream(*deltas, finish="length" if cut else "tool_calls")


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("arguments", ["{]", "[1]", '{"a":1} x'])
def test_w10_nothing_but_the_error_follows_a_failed_call(upstream, client, arguments):
    """W10: later calls must not run, because the client retries the whole message."""
    body = answer(upstream, arguments)
    for reads in ([body], event_reads(body), [body[at : at + 7] for at in range(0, len(body), 7)]):
        sent = relay(reads, client=client, upstream=upstream)
        check_end(sent, client)
        received = view(sent, client)
        assert received.error == error_type("format_transformation_error", client)
        assert [c["name"] for c in received.calls] == ["before"]
        assert b"ater" not in sent
        assert received.names[-2:] == (["error", "message_stop"] if client == "anthropic" else [])
    reply = reply_from(body, upstream=upstream)
    assert [part.name for part in reply.parts if isinstance(part, ToolCall)] == ["before", "later"]
    assert reply.failure is not None  # the audit has read on; a collected answer is an error


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_w10_a_cut_call_may_be_the_last_thing_before_the_token_limit(upstream, client):
    """W10: the block of a cut call never stays open beside others."""
    for body, is_legal in [
        (answer(upstream, '{"a":', later=False, cut=True), True),
        (answer(upstream, '{"a":', later=True, cut=True), False),
        (answer(upstream, '{"a":', later=False), False),
    ]:
        for reads in ([body], event_reads(body)):
            sent = relay(reads, client=client, upstream=upstream)
            check_end(sent, client)
            received = view(sent, client)
            assert [c["name"] for c in received.calls] == ["before"]
            assert b"ater" not in sent
            assert (received.error is None) == is_legal
            assert (received.stop in ("max_tokens", "length")) == is_legal
        reply = reply_from(body, upstream=upstream)
        assert (reply.failure is None) == is_legal


@pytest.mark.parametrize("client", DIALECTS)
def test_w10_a_failed_call_in_the_text_ends_the_stream_at_once(client):
    """W10: the error does not wait for the end of the answer."""
    section = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
        "<|tool_call_argument_begin|>{]<|tool_call_end|><|tool_calls_section_end|>"
    )
    sent = relay(
        [chunk({"content": section}), chunk({"content": "more text"})],
        client=client,
        format_name="kimi",
    )
    check_end(sent, client)
    assert view(sent, client).error == error_type("format_transformation_error", client)
    assert b"more text" not in sent


def test_w10_the_failure_of_the_stream_is_that_of_the_message():
    """W10: a stream and a whole answer fail for the same reason."""
    reply = reply_from(answer("openai", "{]"))
    assert reply.faults == [CallFault.INVALID_JSON]
    assert isinstance(reply.failure, MessageFailed)
    reason = "the arguments of the call broken are not valid JSON"
    assert reply.failure.message == f"The model's tool call could not be translated: {reason}"
    for client in DIALECTS:
        assert reason in relay(answer("openai", "{]"), client=client).decode()


@pytest.mark.parametrize(
    ("arguments", "name", "reason"),
    [
        ('{"a": 1', "f", "the call f ended before it was complete"),
        ("[1]", "f", "the arguments of the call f are not a JSON object"),
        ("{]", "f\u202e\nx", "the arguments of the call f x are not valid JSON"),
        ('{"a": 1}', "", "a call has no name"),
    ],
)
def test_the_error_says_in_words_what_is_wrong_with_which_call(arguments, name, reason):
    good = entry(0, "c0", "g", "{}")
    body = stream(calls(good, entry(1, "c1", name, arguments)), finish="tool_calls")
    reply = reply_from(body)
    assert isinstance(reply.failure, MessageFailed)
    assert reply.failure.message.endswith(f": {reason}")


EMPTY = {
    "no arguments": {"index": 1, "id": "c1", "type": "function", "function": {"name": ""}},
    "empty arguments": {"index": 1, "id": "c1", "function": {"name": "", "arguments": ""}},
    "blank arguments": {"index": 1, "function": {"arguments": "  "}},
    "no function": {"index": 1, "id": "c1", "type": "function"},
}


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("case", EMPTY)
def test_t9_an_empty_entry_beside_a_call_is_dropped_with_a_notice(case, order, client):
    """T9: the call was delivered, and then the message failed."""
    real, empty = entry(0, "c0", "f", '{"a":1}'), EMPTY[case]
    both = [real, empty] if order == 1 else [empty | {"index": 0}, real | {"index": 1}]
    for deltas in ([calls(*both)], [calls(both[0]), calls(both[1])]):
        body = stream(*deltas, finish="tool_calls")
        received = view(relay(body, client=client), client)
        assert (received.error, received.calls) == (None, [{"name": "f", "arguments": {"a": 1}}])
        codes = {notice.code for notice in reply_from(body).notices}
        assert NoticeCode.EMPTY_CALL_DROPPED in codes


@pytest.mark.parametrize("client", DIALECTS)
def test_t9_an_empty_block_beside_a_call_is_dropped_with_a_notice(client):
    """T9, from an Anthropic upstream."""
    events = [
        MessageStart("m", "m"),
        ToolCallStart("c0", ""),
        ToolCallEnd(),
        *call(1, "f", '{"a":1}'),
        MessageEnd(StopReason.TOOL_USE),
    ]
    sent = relay(anthropic_stream(events), client=client, upstream="anthropic")
    received = view(sent, client)
    assert (received.error, received.calls) == (None, [{"name": "f", "arguments": {"a": 1}}])


@pytest.mark.parametrize("client", DIALECTS)
def test_t9_an_empty_entry_alone_or_arguments_without_a_name_still_fail(client):
    """T9: the upstream claims a call that nobody can run."""
    for entries in (
        [EMPTY["no arguments"]],
        [entry(0, "c0", "f", "{}"), entry(1, "c1", "", '{"a":1}')],
    ):
        sent = relay(stream(calls(*entries), finish="tool_calls"), client=client)
        assert view(sent, client).error == error_type("format_transformation_error", client)
