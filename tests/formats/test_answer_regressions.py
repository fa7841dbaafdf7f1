"""Regression tests of defects in responses, found by adversarial testing."""

import json

import pytest

from formats import (
    DIALECTS,
    FailureKind,
    FormatsError,
    Limits,
    MessageEnd,
    MessageFailed,
    NoticeCode,
    StopReason,
    Tool,
    Toolbox,
    collect,
    merge_deltas,
)
from formats.conversation import Reasoning, Text, ToolCall
from tests.support.anthropic_frames import EMPTY, block, event, message, part, text, tool
from tests.support.wire import (
    byte_cuts,
    calls,
    chunk,
    cuts,
    data,
    decode,
    entry,
    event_reads,
    relay,
    reply_from,
    stream,
)

TOOLS = Toolbox(
    [
        Tool("f", None, b'{"type":"object","properties":{"a":{"type":"integer"},"s":{}}}'),
        Tool("ping", None, b'{"type":"object"}'),
        Tool("Bash", None, b'{"type":"object","properties":{"command":{"type":"string"}}}'),
    ]
)
SB, SE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CB, CE, AB = "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"
CALL = SB + CB + "functions.f:0" + AB + '{"a":1}' + CE


def reply_to_text(text, format_name, channel="content", tools=TOOLS, **options):
    """Return the reply for a model's text; it must be the same at any split."""
    whole = None
    for pieces in cuts(text, 3):
        body = stream(*({channel: piece} for piece in pieces))
        reads = event_reads(body)
        events = merge_deltas(decode(reads, format_name=format_name, tools=tools, **options))
        whole = events if whole is None else whole
        assert events == whole
    return collect(whole)


def calls_of(reply):
    return [(p.name, json.loads(p.arguments)) for p in reply.parts if isinstance(p, ToolCall)]


def text_of(reply):
    return "".join(p.text for p in reply.parts if isinstance(p, Text))


def start(index, content):
    return event("content_block_start", index=index, content_block=content)


def delta(index, value):
    return event("content_block_delta", index=index, delta=value)


def stop(index):
    return event("content_block_stop", index=index)


INTERLEAVED = {
    "the stop of another block": [
        start(0, EMPTY), delta(0, text("x")), start(1, tool()), stop(0),
        delta(1, part('{"a":')), delta(1, part("1}")), stop(1),
    ],
    "text in the middle": [
        start(0, EMPTY), start(1, tool()), delta(1, part('{"a":')), delta(0, text("x")),
        delta(1, part("1}")), stop(1), stop(0),
    ],
    "two calls": [
        start(0, EMPTY), delta(0, text("x")), stop(0), start(1, tool()), start(2, tool("ping", "toolu_2")),
        delta(2, part("{")), delta(1, part('{"a":')), delta(2, part("}")), stop(2),
        delta(1, part("1}")), stop(1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("blocks", INTERLEAVED.values(), ids=INTERLEAVED)
def test_interleaved_blocks_keep_their_arguments(blocks):
    reply = reply_from(message(*blocks, stop="tool_use"), upstream="anthropic")
    assert reply.failure is None
    assert calls_of(reply)[0] == ("f", {"a": 1})
    assert text_of(reply) == "x"


def test_arguments_after_the_end_of_their_block_fail_the_message():
    body = message(start(0, tool()), stop(0), delta(0, part('{"a":1}')), stop="tool_use")
    assert reply_from(body, upstream="anthropic").failure


def test_odd_anthropic_streams_are_read():
    body = message(block(0, EMPTY, text("x")))
    twice = event("message_start", message={"id": "m2"}) + body
    assert text_of(reply_from(twice, upstream="anthropic")) == "x"
    headless = body.partition(b"event: ping")[2]
    assert text_of(reply_from(b"event: ping" + headless, upstream="anthropic")) == "x"
    nulls = message(
        block(0, {"type": "text", "text": None}, text("x"), {"type": "text_delta", "text": None})
    )
    assert text_of(reply_from(nulls, upstream="anthropic")) == "x"
    failed = decode(event("error", error="boom"), upstream="anthropic")[-1]
    assert failed == MessageFailed(FailureKind.UPSTREAM, "boom")


@pytest.mark.parametrize("header", ["functions.Bash:0", "Bash:12"])
def test_p1_kimi_without_begin_tokens_calls_the_tool_named_in_the_header(header):
    reply = reply_to_text(f"{header}{AB}" + '{"command":"ls"}' + CE + SE, "kimi")
    assert calls_of(reply) == [("Bash", {"command": "ls"})]


def test_a_nested_object_is_not_mistaken_for_repeated_arguments():
    body = stream(calls(entry(0, "a", "f", '{"o":')), calls(entry(0, arguments='{"o":1}}')))
    assert calls_of(reply_from(body)) == [("f", {"o": {"o": 1}})]


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        ('<tool_call>\n<function=f>\n<parameter name="s">v</parameter>\n</function>\n</tool_call>', "qwen"),
        ("<tool_call>\n<function=f>\n<parameter=>1</parameter>\n</function>\n</tool_call>", "qwen"),
        ('<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter string="true">v'
         "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>", "deepseek"),
    ],
)  # fmt: skip
def test_a_parameter_in_an_unknown_form_fails_the_call(text, format_name):
    reply = reply_to_text(text, format_name)
    assert (calls_of(reply), reply.faults) == ([], ["malformed"])


NO_EXCEPTION = {
    "nested thinking": stream({"content": "<think><tool_call>x" * 2000}),
    "half a pair in an envelope": b'data: {"choices":[{"delta":{"content":"<tool_call>{\\"arguments\\":'
    b'{\\"s\\":\\"\\ud83d\\"},\\"name\\":\\"f\\"}</tool_call>"}}]}\n\n' + chunk({}, "stop"),
    "an escaped half in an envelope": stream(
        {"content": '<tool_call>{"arguments":{"s":"\\ud83d"},"name":"f"}</tool_call>'}
    ),
    "an exotic error code": data({"error": {"message": "x", "code": "²"}}),
    "a long error code": data({"error": {"message": "x", "code": "9" * 5000}}),
    "usage out of range": chunk({"content": "x"}, "stop")
    + b'data: {"choices":[],"usage":{"prompt_tokens":1e30},"x":"\\ud83d"}\n\n',
    "usage that is not a number": b'data: {"choices":[],"usage":{"prompt_tokens":NaN},"x":"\\ud83d"}\n\n',
}


@pytest.mark.parametrize("body", NO_EXCEPTION.values(), ids=NO_EXCEPTION)
@pytest.mark.parametrize("client", DIALECTS)
def test_the_pipeline_never_raises(client, body):
    relay(body, client=client, format_name="qwen", toolbox=TOOLS)
    assert isinstance(decode(body, format_name="qwen")[-1], MessageEnd | MessageFailed)


def test_half_a_surrogate_pair_in_a_held_envelope_is_delivered():
    for name in ("half a pair in an envelope", "an escaped half in an envelope"):
        assert [
            name for name, _ in calls_of(reply_from(NO_EXCEPTION[name], format_name="qwen"))
        ] == ["f"]


def test_half_a_surrogate_pair_in_a_whole_answer_is_delivered():
    whole = (
        b'{"content":[{"type":"tool_use","id":"a","name":"f","input":{"s":"\\ud83d"}}],'
        b'"stop_reason":"tool_use"}'
    )
    events = DIALECTS["anthropic"].decoder(Limits()).read_whole(whole)
    assert [p.name for p in collect(events).parts] == ["f"]
    sequence = message(block(0, EMPTY, text("x"))).replace(
        b'"stop_sequence": null', b'"stop_sequence": "\\ud83d"'
    )
    assert b"\\ud83d" in relay(sequence, client="anthropic", upstream="anthropic")


CUT = '<tool_call>{"name":"f","arguments":{"a":1'


def test_p9_a_broken_call_in_the_reasoning_fails_a_message_with_blank_text():
    body = stream({"reasoning": CUT}, {"content": " "})
    assert reply_from(body, format_name="qwen").failure
    good = '<tool_call>{"name":"ping","arguments":{}}</tool_call>'
    body = stream({"reasoning": good + CUT}, {"content": "Answer."})
    reply = reply_from(body, format_name="qwen")
    assert calls_of(reply) == [("ping", {})]
    assert reply.failure is None


def test_text_keeps_its_order_around_a_structured_call():
    body = stream(
        calls(entry(0, "a", "f", '{"a"')),
        {"content": "first "},
        calls(entry(0, arguments=":1}")),
        {"content": "second"},
    )
    assert text_of(reply_from(body)) == "first second"


@pytest.mark.parametrize(
    ("text", "format_name"),
    [(CALL + " Is 3 <", "kimi"), ('<tool_call>{"name":"f","arguments":{"a":1}} Is 3 <', "qwen")],
)
def test_text_after_an_open_section_survives_a_trailing_bracket(text, format_name):
    reply = reply_to_text(text, format_name)
    assert calls_of(reply) == [("f", {"a": 1})]
    assert text_of(reply) == " Is 3 <"


def test_junk_after_a_json_body_is_limited_the_same_at_any_split():
    junk = "x" * 300
    reply_to_text('<tool_call><function=f>{"a":1}' + junk + "</function></tool_call>", "qwen")


def test_a_marker_that_turns_out_to_be_text_stays_in_its_channel():
    body = stream({"reasoning": f"hmm {CB} secret, prose"}, {"content": "Answer"})
    reply = reply_from(body, format_name="kimi")
    assert reply.parts == [Reasoning(f"hmm {CB} secret, prose"), Text("Answer")]


def test_p1_a_structured_call_wins_over_a_truncated_copy():
    structured = calls(entry(0, "s", "f", '{"a":1}'))
    for deltas in (
        [{"content": CUT}, structured],
        [{"content": CALL.removesuffix("1}" + CE)}, structured],
    ):
        for name in ("qwen", "kimi"):
            reply = reply_from(stream(*deltas), format_name=name)
            assert reply.failure is None
            assert calls_of(reply) == [("f", {"a": 1})]
            assert reply.stop_reason is StopReason.TOOL_USE


TWO_CALLS = {
    "same id, other index": [calls(entry(0, "x", "f", '{"a":1}')), calls(entry(1, "x", "ping", "{}"))],
    "index 0, empty arguments first": [calls(entry(0, name="ping", arguments="")),
                                       calls(entry(0, name="f", arguments='{"a":1}'))],
    "index 0, name apart": [calls(entry(0, name="ping", arguments="{}")),
                            calls(entry(0, name="f", arguments="")), calls(entry(0, arguments='{"a":1}'))],
    "no index, the same tool, name apart": [
        calls(entry(name="f", arguments='{"a":1}')), calls(entry(name="f", arguments="")),
        calls(entry(arguments='{"a":2}'))],
    "twins in one delta": [calls(entry(name="f", arguments='{"a":1}'), entry(name="f", arguments='{"a":1}'))],
}  # fmt: skip


@pytest.mark.parametrize("deltas", TWO_CALLS.values(), ids=TWO_CALLS)
def test_p7_two_calls_stay_two_calls(deltas):
    reply = reply_from(stream(*deltas, finish="tool_calls"))
    assert reply.failure is None
    assert len(calls_of(reply)) == 2
    assert len({part.id for part in reply.parts}) == 2


def test_a_repeated_name_does_not_start_another_call():
    body = stream(calls(entry(name="f", arguments='{"a":1}')), calls(entry(name="f", arguments="")))
    assert calls_of(reply_from(body)) == [("f", {"a": 1})]


HELD_CALLS = {
    "bare counters": ("kimi", "content", SB + CB + "0" + AB + '{"a":"'),
    "calls in the reasoning": ("qwen", "reasoning", '<tool_call>{"name":"f","arguments":{"a":"'),
}


@pytest.mark.parametrize(("format_name", "channel", "opening"), HELD_CALLS.values(), ids=HELD_CALLS)
def test_held_calls_are_limited(format_name, channel, opening):
    body = stream({channel: opening}, *({channel: "x" * 1000} for _ in range(20)))
    failed = decode(body, format_name=format_name, limits=Limits(held_chars=5000))[-1]
    assert isinstance(failed, MessageFailed)
    assert "held_chars" in failed.message


def test_text_held_for_a_call_is_limited():
    body = stream(calls(entry(0, "a", "f", '{"a"')), *({"content": "x" * 1000} for _ in range(20)))
    assert "held_chars" in decode(body, limits=Limits(held_chars=5000))[-1].message


@pytest.mark.parametrize(
    ("body", "format_name"),
    [
        (stream({"content": SB + CB + "functions.:0" + AB + "{}" + CE + SE}), "kimi"),
        (stream({"content": "<tool_call><function= ></function></tool_call>"}), "qwen"),
        (stream({"content": '<tool_call>{"name":" ","arguments":{}}</tool_call>'}), "qwen"),
        (stream(calls(entry(0, "a", " ", "{}"))), "standard"),
    ],
)
def test_a_call_without_a_name_is_never_delivered(body, format_name):
    reply = reply_from(body, format_name=format_name)
    assert calls_of(reply) == []
    assert reply.failure


def test_quoted_thinking_tags_do_not_start_a_draft():
    quoted = (
        'About `<think>`.\n<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>\nand `</think>`'
    )
    assert calls_of(reply_to_text(quoted, "qwen")) == [("f", {"a": 1})]


def test_notices_do_not_depend_on_chunking():
    other = data({"choices": [{"index": 1, "delta": {"content": "y"}}]})
    body = chunk({"content": "x"}) + other * 3 + chunk({}, "stop")
    for parts in byte_cuts(body, 2):
        codes = [n.code for n in collect(decode(parts)).notices]
        assert codes == [NoticeCode.CHOICE_IGNORED]


V3 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (V3 + "ping\n```json\n\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", ("ping", {})),
        (V3 + "ping\n```json\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", ("ping", {})),
        (V3 + '{"a":1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>', ("function", {"a": 1})),
        (V3 + "ping\n```json\n{}\n```", ("ping", {})),
    ],
)
def test_edge_cases_of_deepseek_v3(text, call):
    reply = reply_to_text(text, "deepseek")
    assert calls_of(reply) == [call]
    assert text_of(reply) == ""


def test_qwen_agent_markers_in_prose_stay_text():
    prose = "I love ✿FUNCTION✿ and ✿RESULT✿ flowers"
    assert text_of(reply_to_text(prose, "qwen")) == prose


def test_text_in_a_section_without_calls_stays_text():
    assert "and then" in text_of(reply_to_text(f"Use {SB} and then {SE} to wrap.", "kimi"))


def test_spaces_around_the_punctuation_of_a_header_are_ignored():
    assert calls_of(
        reply_to_text(SB + CB + " functions . f : 45 " + AB + '{"a":1}' + CE + SE, "kimi")
    ) == [("f", {"a": 1})]


FAILED_ANSWERS = {
    "nothing and [DONE]": chunk({"role": "assistant", "content": ""}) + b"data: [DONE]\n\n",
    "detail": data({"detail": "boom"}) + b"data: [DONE]\n\n",
    "message and code": data({"message": "boom", "code": 500}) + b"data: [DONE]\n\n",
    "an error event": b"event: error\n" + data({"x": "boom"}) + b"data: [DONE]\n\n",
    "broken off": stream({"content": "x"}, finish="insufficient_system_resource"),
    "aborted": stream({"content": "x"}, finish="abort"),
}


@pytest.mark.parametrize("body", FAILED_ANSWERS.values(), ids=FAILED_ANSWERS)
def test_p9_a_stream_without_an_answer_fails(body):
    assert isinstance(decode(body)[-1], MessageFailed)


@pytest.mark.parametrize("whole", [b"{}", b'{"choices":[]}', b'{"detail":"x"}'])
def test_p9_an_empty_json_answer_fails(whole):
    with pytest.raises(FormatsError):
        DIALECTS["openai"].decoder(Limits()).read_whole(whole)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("MAX_TOKENS", StopReason.MAX_TOKENS), ("model_length", StopReason.MAX_TOKENS),
     ("SAFETY", StopReason.REFUSAL)],
)  # fmt: skip
def test_finish_reasons_of_other_vendors_are_understood(finish, reason):
    assert reply_from(stream({"content": "x"}, finish=finish)).stop_reason is reason


TOLERATED = {
    "counts as strings": chunk({"content": "x"}, "stop", usage={"prompt_tokens": "9"}),
    "a provider as an object": chunk({"content": "x"}, "stop", provider={"name": "p"}),
    "empty data": b"data:\n\n" + chunk({"content": "x"}, "stop"),
    "null data": b"data: null\n\n" + chunk({"content": "x"}, "stop"),
    "a space after [DONE]": chunk({"content": "x"}, "stop") + b"data: [DONE] \n\n",
    "null among the calls": chunk({"content": "x", "tool_calls": [None]}, "stop"),
    "nothing among the calls": chunk({"content": "x", "tool_calls": [{}]}, "stop"),
}


@pytest.mark.parametrize("body", TOLERATED.values(), ids=TOLERATED)
def test_malformed_minor_fields_do_not_fail_an_answer(body):
    reply = reply_from(body)
    assert (text_of(reply), reply.failure) == ("x", None)


def test_mistral_thinking_becomes_reasoning():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    reply = reply_from(stream({"content": [thinking, {"type": "text", "text": "x"}]}))
    assert reply.parts == [Reasoning("Hm."), Text("x")]
