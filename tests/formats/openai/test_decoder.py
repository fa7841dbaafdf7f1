"""Decoding of streams as upstreams of the OpenAI dialect really send them."""

import json

import pytest

from formats import (
    DIALECTS,
    FailureKind,
    Identity,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    NoticeCode,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    Usage,
    merge_deltas,
)
from formats.conversation import Reasoning, Text, ToolCall
from formats.openai.decoder import OpenAIDecoder
from tests.support.client_views import error_type, view
from tests.support.wire import (
    CREATED,
    byte_cuts,
    calls,
    chunk,
    data,
    decode,
    entry,
    relay,
    reply_from,
    stream,
)


def calls_from(*deltas, finish="tool_calls"):
    """The calls in a stream of deltas, as (id, name, arguments)."""
    body = stream(*deltas, finish=finish)
    reply = reply_from(body)
    assert reply.failure is None, reply.failure
    for parts in byte_cuts(body, 2):
        assert merge_deltas(decode(parts)) == merge_deltas(decode(body))
    return [
        (part.id, part.name, json.loads(part.arguments))
        for part in reply.parts
        if isinstance(part, ToolCall)
    ]


A1 = ("a", "f", {"x": 1})
B2 = ("b", "g", {"y": 2})


def test_arguments_stream_as_they_arrive():
    reads = [
        chunk(calls(entry(0, "a", "f", ""))),
        chunk(calls(entry(0, arguments='{"x":'))),
        chunk(calls(entry(0, arguments=" 1}"))),
        chunk({}, "tool_calls"),
    ]
    assert decode(reads)[1:5] == [
        ToolCallStart("a", "f"),
        ToolCallDelta('{"x":'),
        ToolCallDelta(" 1}"),
        ToolCallEnd(),
    ]


def test_deltas_of_one_read_become_one_delta():
    assert decode(stream({"content": "a"}, {"content": "b"}))[1] == TextDelta("ab")


def test_p2a_name_and_arguments_in_one_chunk():
    assert calls_from(calls(entry(0, "a", "f", '{"x":1}'))) == [A1]


def test_p2b_empty_tool_calls_next_to_text_are_ignored():
    reply = reply_from(stream({"content": "hi", "tool_calls": []}))
    assert reply.parts == [Text("hi")]
    assert reply.stop_reason is StopReason.END_TURN


def test_p2c_usage_on_every_chunk_does_not_end_the_message():
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    body = (
        chunk(calls(entry(0, "a", "f", '{"x"')), usage=usage)
        + chunk(calls(entry(0, arguments=":1}")), usage=usage)
        + chunk({}, "tool_calls", usage={"prompt_tokens": 5, "completion_tokens": 9})
    )
    reply = reply_from(body)
    assert reply.parts == [ToolCall("a", "f", b'{"x":1}')]
    assert reply.usage == Usage(input=5, output=9)


@pytest.mark.parametrize("arguments", [None, "", "   ", "null", '""'])
def test_p2d_a_call_without_arguments_has_an_empty_object(arguments):
    assert calls_from(calls(entry(0, "a", "f", arguments))) == [("a", "f", {})]


@pytest.mark.parametrize(
    "fragments",
    [
        ['{"x"', '{"x":1', '{"x":1}'],
        ["{", '{"x":1}'],
        ['{"x":1}', '{"x":1}'],
        ['{"x"', ":1}", '{"x":1}'],
    ],
    ids=["growing", "from a brace", "sent twice", "deltas and then the whole"],
)
def test_p2e_cumulative_arguments_are_sent_once(fragments):
    first, *rest = fragments
    deltas = [calls(entry(0, "a", "f", first)), *(calls(entry(0, arguments=r)) for r in rest)]
    assert calls_from(*deltas) == [A1]


def test_p2f_arguments_as_an_object_keep_their_numbers():
    body = chunk({"tool_calls": [{"index": 0, "id": "a"}]}).replace(
        b'"id": "a"', b'"id": "a", "function": {"name": "f", "arguments": {"x": 1.50}}'
    )
    reply = reply_from(body + chunk({}, "tool_calls"))
    assert reply.parts == [ToolCall("a", "f", b'{"x":1.50}')]


def test_p2f_arguments_encoded_twice_are_decoded_once_with_a_notice():
    reply = reply_from(stream(calls(entry(0, "a", "f", '"{\\"x\\":1}"'))))
    assert reply.parts == [ToolCall("a", "f", b'{"x":1}')]
    assert NoticeCode.ARGUMENTS_DECODED_TWICE in [notice.code for notice in reply.notices]


def test_p6_a_call_before_text_keeps_its_place():
    reply = reply_from(stream(calls(entry(0, "a", "f", '{"x":1}')), {"content": "Done."}))
    assert reply.parts == [ToolCall("a", "f", b'{"x":1}'), Text("Done.")]
    assert reply.stop_reason is StopReason.TOOL_USE


def test_p6_text_in_the_middle_of_a_call_follows_it():
    reply = reply_from(
        stream(
            calls(entry(0, "a", "f", '{"x"')),
            {"content": "Wait."},
            calls(entry(0, arguments=":1}")),
        )
    )
    assert reply.parts == [ToolCall("a", "f", b'{"x":1}'), Text("Wait.")]


def test_reasoning_text_call_and_finish_in_one_chunk():
    delta = {"reasoning": "Hm.", "content": "Ok.", **calls(entry(0, "a", "f", '{"x":1}'))}
    reply = reply_from(chunk(delta, "tool_calls") + b"data: [DONE]\n\n")
    assert reply.parts == [Reasoning("Hm."), Text("Ok."), ToolCall("a", "f", b'{"x":1}')]


PARALLEL = {
    "one after the other": [
        calls(entry(0, "a", "f", '{"x":')), calls(entry(0, arguments="1}")),
        calls(entry(1, "b", "g", '{"y":')), calls(entry(1, arguments="2}")),
    ],
    "interleaved": [
        calls(entry(0, "a", "f", '{"x":'), entry(1, "b", "g", '{"y":')),
        calls(entry(1, arguments="2}")), calls(entry(0, arguments="1}")),
    ],
    "in one delta": [calls(entry(0, "a", "f", '{"x":1}'), entry(1, "b", "g", '{"y":2}'))],
    "always index 0, new ids": [
        calls(entry(0, "a", "f", '{"x":1}')), calls(entry(0, "b", "g", '{"y":')),
        calls(entry(0, arguments="2}")),
    ],
    "no index, new ids": [
        calls(entry(None, "a", "f", '{"x":')), calls(entry(None, arguments="1}")),
        calls(entry(None, "b", "g", '{"y":2}')),
    ],
    "id and name repeated": [
        calls(entry(0, "a", "f", '{"x":')), calls(entry(0, "a", "f", "1}")),
        calls(entry(1, "b", "g", '{"y":')), calls(entry(1, "b", "g", "2}")),
    ],
}  # fmt: skip


@pytest.mark.parametrize("deltas", PARALLEL.values(), ids=PARALLEL)
def test_p7_parallel_calls_all_survive(deltas):
    assert calls_from(*deltas) == [A1, B2]


def test_p7_without_index_and_id_a_new_name_is_a_new_call():
    got = calls_from(
        calls(entry(name="f", arguments='{"x":1}')),
        calls(entry(name="g", arguments='{"y":')),
        calls(entry(arguments="2}")),
    )
    assert [(name, arguments) for _, name, arguments in got] == [A1[1:], B2[1:]]


def test_p7_the_same_tool_twice_without_index_and_id_is_two_calls():
    got = calls_from(
        calls(entry(0, name="f", arguments='{"x":1}')),
        calls(entry(0, name="f", arguments='{"x":2}')),
    )
    assert [arguments for _, _, arguments in got] == [{"x": 1}, {"x": 2}]
    assert len({call_id for call_id, _, _ in got}) == 2


@pytest.mark.parametrize(
    "deltas",
    [
        [{"function_call": {"name": "f", "arguments": '{"x":1}'}}],
        [{"function_call": {"name": "f"}}, {"function_call": {"arguments": '{"x"'}},
         {"function_call": {"arguments": ":1}"}}],
        [{"function_call": {"arguments": '{"x"'}}, {"function_call": {"name": "f"}},
         {"function_call": {"arguments": ":1}"}}],
    ],
    ids=["whole", "name first", "arguments first"],
)  # fmt: skip
def test_a_function_call_of_qwen_agent_gets_an_id(deltas):
    assert calls_from(*deltas, finish="function_call") == [("call_tok_1", "f", {"x": 1})]


def test_an_id_already_used_in_history_or_answer_is_replaced():
    identity = Identity(token="tok", taken_ids={"a"})
    body = stream(calls(entry(0, "a", "f", "{}")), calls(entry(1, "functions.f:1", "f", "{}")))
    ids = [e.id for e in decode(body, identity=identity) if isinstance(e, ToolCallStart)]
    assert ids == ["call_tok_1", "call_tok_2"]


BROKEN = {
    "trailing comma": ('{"x":1,}', "invalid_json"),
    "two objects": ('{"x":1}{"y":2}', "invalid_json"),
    "native tokens after the object": (
        '{"x":1}<|tool_call_end|><|tool_call_begin|>',
        "invalid_json",
    ),
    "an array": ("[1]", "non_object_args"),
    "cut": ('{"x":', "truncated"),
    "too deep": ('{"x":' * 200, "invalid_json"),
    "NaN": ('{"x":NaN}', "invalid_json"),
    "a number of 5000 digits": ('{"x":' + "1" * 5000 + "}", "invalid_json"),
}


@pytest.mark.parametrize(("arguments", "fault"), BROKEN.values(), ids=BROKEN)
def test_arguments_that_are_not_json_fail_the_message(arguments, fault):
    reply = reply_from(stream(calls(entry(0, "a", "f", arguments)), finish="tool_calls"))
    assert reply.faults == [fault]
    assert reply.parts == []
    assert reply.failure
    assert reply.failure.kind is FailureKind.TRANSFORMATION


def test_a_call_that_never_gets_a_name_fails_the_message():
    reply = reply_from(stream(calls(entry(0, "a", arguments="{}"))))
    assert reply.faults == ["missing_name"]


def test_u14_a_call_cut_by_the_token_limit_ends_in_max_tokens():
    for arguments in (None, "", '{"x":'):
        reply = reply_from(stream(calls(entry(0, "a", "f", arguments)), finish="length"))
        assert reply.failure is None
        assert (reply.stop_reason, reply.parts) == (StopReason.MAX_TOKENS, [])


REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "tool_calls": StopReason.END_TURN,
    "something new": StopReason.END_TURN,
}


@pytest.mark.parametrize(("finish", "reason"), REASONS.items())
def test_d4_stop_reasons_follow_from_what_was_delivered(finish, reason):
    assert reply_from(stream({"content": "hi"}, finish=finish)).stop_reason is reason


def test_d4_a_complete_call_is_tool_use_whatever_the_upstream_says():
    body = stream(calls(entry(0, "a", "f", "{}")), finish="stop")
    assert reply_from(body).stop_reason is StopReason.TOOL_USE


def test_d4_the_token_limit_is_kept_after_a_complete_call():
    body = stream(calls(entry(0, "a", "f", "{}")), {"content": "and th"}, finish="length")
    assert reply_from(body).stop_reason is StopReason.MAX_TOKENS


FAILURES = {
    "finish_reason error": chunk({"content": "x"}) + chunk({}, "error"),
    "MALFORMED_FUNCTION_CALL": chunk({}, "stop").replace(
        b'"finish_reason": "stop"',
        b'"finish_reason": "stop", "native_finish_reason": "MALFORMED_FUNCTION_CALL"',
    ),
    "top-level error": chunk({"content": "x"}) + data({"error": {"message": "m", "code": 502}}),
    "error as a string": data({"error": "boom"}),
    "vLLM's error object": data({"object": "error", "message": "m", "code": 400}),
    "error in the choice": data({"choices": [{"error": {"message": "m"}, "delta": {}}]}),
    "end without finish": stream({"content": "x"}, finish=None, done=False),
    "nothing at all": b"",
    "nothing but [DONE]": b"data: [DONE]\n\n",
    "phantom call and nothing else": stream({"content": ""}, finish="tool_calls"),
    "billed but empty": chunk({}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 70}),
    "not JSON": b"data: {oops\n\n",
    "not UTF-8": b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
    "wrong types": data({"choices": [{"delta": {"content": 5}}]}),
    "deeply nested": b"data: " + b"[" * 100_000 + b"\n\n",
}


@pytest.mark.parametrize("body", FAILURES.values(), ids=FAILURES)
def test_p9_a_failed_answer_is_a_failure(body):
    events = decode(body)
    assert isinstance(events[-1], MessageFailed)
    assert not any(isinstance(event, MessageEnd) for event in events)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429}, FailureKind.RATE_LIMIT),
        ({"code": "429"}, FailureKind.RATE_LIMIT),
        ({"code": 401}, FailureKind.UPSTREAM),
        ({"code": 529}, FailureKind.OVERLOADED),
        ({"type": "overloaded_error"}, FailureKind.OVERLOADED),
        ({"code": 400}, FailureKind.INVALID_REQUEST),
        ({"code": None}, FailureKind.UPSTREAM),
    ],
)
def test_p18_errors_in_the_stream_keep_their_kind(error, kind):
    failed = decode(data({"error": {"message": "why", **error}}))[-1]
    assert failed == MessageFailed(kind, "why")


def test_text_before_an_error_in_the_same_read_is_delivered():
    events = decode(chunk({"content": "half"}) + data({"error": "boom"}))
    assert events == [
        MessageStart("chatcmpl-1", "m", created=CREATED),
        TextDelta("half"),
        MessageFailed(FailureKind.UPSTREAM, "boom"),
    ]


def test_p12_an_empty_answer_that_finished_is_empty_with_a_notice():
    events = decode(stream({"content": ""}))
    assert Notice(NoticeCode.EMPTY_ANSWER) in events
    assert isinstance(events[-1], MessageEnd)


def test_done_without_a_finish_reason_gives_a_notice():
    reply = reply_from(stream({"content": "hi"}, finish=None))
    assert reply.stop_reason is StopReason.END_TURN
    assert reply.notices == [Notice(NoticeCode.FINISH_REASON_MISSING)]


def test_a_finish_reason_without_done_ends_the_message():
    assert reply_from(stream({"content": "hi"}, done=False)).failure is None


def test_p18_two_copies_of_the_reasoning_are_sent_once():
    details = [{"type": "reasoning.text", "text": "Hm."}]
    delta = {"reasoning": "Hm.", "reasoning_content": "Hm.", "reasoning_details": details}
    assert reply_from(stream(delta, {"content": "x"})).parts == [Reasoning("Hm."), Text("x")]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_p18_reasoning_is_read_from_either_field(field):
    assert reply_from(stream({field: "Hm."}, {"content": "x"})).parts[0] == Reasoning("Hm.")


def test_p18_reasoning_details_alone_are_read_with_their_signature():
    details = [
        {"type": "reasoning.text", "text": "Hm.", "signature": "s"},
        {"type": "reasoning.encrypted", "data": "d"},
    ]
    events = decode(stream({"reasoning_details": details}))
    assert events[1:4] == [ReasoningDelta("Hm."), ReasoningSignature("s"), ReasoningRedacted("d")]


USAGE = {
    "plain": ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(input=9, output=2)),
    "OpenAI's cache": (
        {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        Usage(input=5, output=2, cache_read=4),
    ),
    "cache writes": (
        {
            "prompt_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        },
        Usage(input=3, cache_read=4, cache_creation=2),
    ),
    "Moonshot's cache": ({"prompt_tokens": 9, "cached_tokens": 9}, Usage(input=0, cache_read=9)),
    "DeepSeek's cache": (
        {"prompt_tokens": 9, "prompt_cache_hit_tokens": 1},
        Usage(input=8, cache_read=1),
    ),
    "negative": ({"prompt_tokens": -1, "completion_tokens": -1}, Usage()),
    "null": ({"prompt_tokens": None}, Usage()),
    "unknown": ({}, Usage()),
}


@pytest.mark.parametrize(("given", "counts"), USAGE.values(), ids=USAGE)
def test_usage_is_split_and_unknown_stays_unknown(given, counts):
    body = chunk({"content": "x"}) + chunk({}, "stop") + data({"choices": [], "usage": given})
    end = decode(body)[-1]
    assert end == MessageEnd(StopReason.END_TURN, usage=counts)


def test_usage_after_the_finish_reason_is_kept_and_ends_the_message():
    decoder = OpenAIDecoder()
    assert not any(isinstance(e, MessageEnd) for e in decoder.feed(chunk({"content": "x"}, "stop")))
    events = decoder.feed(data({"choices": [], "usage": {"completion_tokens": 3}}))
    assert events == [MessageEnd(StopReason.END_TURN, usage=Usage(output=3))]


def test_p18_comments_and_the_serving_provider_are_read():
    decoder = OpenAIDecoder()
    decoder.feed(b": OPENROUTER PROCESSING\n\n" + chunk({"content": "x"}, provider="Fireworks"))
    assert decoder.served_by == "Fireworks"


def test_other_choices_are_ignored_with_a_notice():
    body = chunk({"content": "x"}) + data({"choices": [{"index": 1, "delta": {"content": "y"}}]})
    reply = reply_from(body + chunk({}, "stop"))
    assert reply.parts == [Text("x")]
    assert reply.notices[0].code is NoticeCode.CHOICE_IGNORED


def test_content_as_parts_and_a_refusal_are_text():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert reply_from(stream({"content": parts}, {"refusal": "No."})).parts == [Text("abNo.")]


def test_a_whole_completion_gives_the_same_events_as_a_stream():
    message = {
        "role": "assistant",
        "content": "Hi",
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = json.dumps({"id": "c", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 3}})
    events = OpenAIDecoder().read_whole(body.encode())
    assert merge_deltas(events) == [
        MessageStart("c", "m"),
        ReasoningDelta("Hm."),
        TextDelta("Hi"),
        ToolCallStart("a", "f"),
        ToolCallDelta('{"x":1}'),
        ToolCallEnd(),
        MessageEnd(StopReason.TOOL_USE, usage=Usage(input=3)),
    ]


def test_p19_characters_split_between_reads_are_joined():
    body = "".join(chunk({"content": text}).decode() for text in "aé漢🚢").encode()
    for parts in byte_cuts(body + chunk({}, "stop"), 4):
        assert merge_deltas(decode(parts))[1] == TextDelta("aé漢🚢")


def test_u13_half_a_surrogate_pair_is_kept():
    body = b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n' + chunk({}, "stop")
    assert decode(body)[1] == TextDelta("\ud83d")


def test_a_call_that_fails_does_not_stop_the_next_one():
    body = stream(calls(entry(0, "a", "f", "{,")), calls(entry(1, "b", "g", '{"y":2}')))
    reply = reply_from(body)
    assert reply.parts == [ToolCall("b", "g", b'{"y":2}')]
    assert reply.failure
    assert [e for e in decode(body) if isinstance(e, ToolCallFailed)]


def test_p1_native_tokens_after_the_arguments_fail_the_call_for_every_client():
    broken = '{"x":1} functions.bash:1 <|tool_call_argument_begin|> {'
    body = stream(calls(entry(0, "a", "f", broken)), finish="tool_calls")
    for client in DIALECTS:
        got = view(relay(body, client=client), client)
        assert (got.calls, got.error) == ([], error_type("format_transformation_error", client))


def test_a_legacy_copy_next_to_the_calls_is_not_a_call():
    deltas = [
        calls(entry(0, "a", "f", '{"x"')) | {"function_call": {"name": "f", "arguments": '{"x"'}},
        calls(entry(0, arguments=":1}")) | {"function_call": {"arguments": ":1}"}},
    ]
    assert reply_from(stream(*deltas)).parts == [ToolCall("a", "f", b'{"x":1}')]


def test_a_whole_completion_with_a_delta_keeps_its_text():
    choice = {"index": 0, "delta": {"content": "hi"}, "finish_reason": None}
    body = json.dumps({"id": "c1", "model": "m", "choices": [choice]}).encode()
    kinds = [type(event).__name__ for event in OpenAIDecoder().read_whole(body)]
    assert kinds == ["MessageStart", "TextDelta", "Notice", "MessageEnd"]
