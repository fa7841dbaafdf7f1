"""Calls of a format that reads several families: whole ones of declared tools, and nothing else."""

import json

import pytest

from formats import (
    AUTO,
    DIALECTS,
    FORMATS,
    FailureKind,
    Limits,
    MessageEnd,
    MessageFailed,
    MessageStart,
    NoticeCode,
    ReasoningDelta,
    StopReason,
    TextDelta,
    Tool,
    Toolbox,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    collect,
    merge_deltas,
)
from formats.conversation import Reasoning, Text, ToolCall
from formats.native.rescue import CallRescue
from tests.support.wire import cuts, decode, relay, reply_from, stream

TOOLS = Toolbox([Tool("get_tide", None, b"{}"), Tool("ping", None, b"{}")])
CALL = '<tool_call>\n{"name": "get_tide", "arguments": {"harbor": "Moss"}}\n</tool_call>'
TOKENS = (
    '<|tool_call_begin|>functions.get_tide:0<|tool_call_argument_begin|>{"harbor": "Moss"}'
    "<|tool_call_end|>"
)
ENVELOPE = '<tool_call>\n{"arguments": {"harbor": "%s"}, "name": "get_tide"}\n</tool_call>'


def rescued(*deltas, limits=Limits(), tools=TOOLS):  # noqa: B008
    rescue = CallRescue(FORMATS[AUTO], tools, limits)
    events = [MessageStart("", ""), *deltas, MessageEnd(StopReason.END_TURN)]
    return [event for read in events for event in rescue.feed([read])]


def codes(events):
    return [notice.code for notice in collect(events).notices]


def parts(events):
    return [
        (part.name, json.loads(part.arguments)) if isinstance(part, ToolCall) else part.text
        for part in collect(events).parts
    ]


MOSS = ("get_tide", {"harbor": "Moss"})


def test_a_call_is_sent_when_it_is_whole_and_not_before():
    rescue = CallRescue(FORMATS[AUTO], TOOLS)
    body = CALL.removesuffix("}\n</tool_call>")
    assert rescue.feed([TextDelta("Look: " + body)]) == [TextDelta("Look: ")]
    starts = [event for event in rescue.feed([TextDelta("}")]) if isinstance(event, ToolCallStart)]
    assert [start.name for start in starts] == ["get_tide"]


def test_a_call_of_an_undeclared_tool_is_released_as_soon_as_its_name_is_known():
    rescue = CallRescue(FORMATS[AUTO], TOOLS)
    text = '<tool_call>\n{"name": "get_wind", "arguments": {'
    events = [event for char in text for event in rescue.feed([TextDelta(char)])]
    sent = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(sent) == text


def test_without_tools_nothing_is_a_call():
    assert parts(rescued(TextDelta(CALL + TOKENS), tools=Toolbox())) == [CALL + TOKENS]


def test_each_family_is_told_once():
    events = rescued(TextDelta(CALL + "\n" + CALL.replace("Moss", "Horten") + TOKENS))
    told = [n.detail for n in collect(events).notices if n.code is NoticeCode.FAMILY_READ]
    assert told == ["qwen", "kimi"]


def test_a_broken_call_never_fails_the_message():
    for text in ('<tool_call>\n{"name": "get_tide", "arguments": [', CALL[:-30], TOKENS[:-40]):
        reply = reply_from(stream({"content": text}), format_name=AUTO, tools=TOOLS)
        assert reply.failure is None
        assert reply.parts == [Text(text)]


def test_markup_that_stays_text_is_still_reported():
    text = "<|tool_calls_section_begin|> and no call"
    reply = reply_from(stream({"content": text}), format_name=AUTO, tools=TOOLS)
    assert (NoticeCode.NATIVE_MARKUP_SEEN, "kimi") in [(n.code, n.detail) for n in reply.notices]


def test_copies_of_structured_calls_are_removed_and_other_text_stays():
    entry = {"index": 0, "id": "c", "function": {"name": "get_tide", "arguments": "{}"}}
    body = stream(
        {"tool_calls": [entry]}, {"content": CALL + " and " + CALL.replace("tide", "wind")}
    )
    events = decode(body, format_name=AUTO, tools=TOOLS)
    assert parts(events) == [("get_tide", {}), " and " + CALL.replace("tide", "wind")]
    assert NoticeCode.SHADOW_CALL_REMOVED in codes(events)


def test_half_a_call_before_a_structured_one_is_text():
    start = ToolCallStart("c", "ping")
    events = rescued(TextDelta(CALL[:40]), start, ToolCallDelta("{}"), ToolCallEnd())
    assert parts(events) == [CALL[:40], ("ping", {})]
    assert collect(events).faults == []


def test_half_a_call_before_a_failure_of_the_message_is_text():
    rescue = CallRescue(FORMATS[AUTO], TOOLS)
    events = [*rescue.feed([TextDelta("Look: " + CALL[:40])])]
    events += rescue.feed([MessageFailed(FailureKind.UPSTREAM, "gone")])
    sent = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(sent) == "Look: " + CALL[:40]
    assert isinstance(events[-1], MessageFailed)


def test_text_that_is_released_goes_through_in_the_clients_dialect():
    """Plain text passes through; held text is sent again by the encoder."""
    text = ["Some text. ", CALL[:30], CALL[30:].replace("tide", "wind"), " More."]
    body = stream(*({"content": piece} for piece in text))
    for upstream in DIALECTS:
        read = decode(body, format_name=AUTO, tools=TOOLS)
        sent = relay(body, client=upstream, format_name=AUTO, toolbox=TOOLS)
        assert collect(decode(sent, upstream=upstream)).parts == collect(read).parts
    plain = stream({"content": "Some text. "}, {"content": "a < b [c] `d`\n"})
    assert relay(plain, client="openai", format_name=AUTO, toolbox=TOOLS) == plain


def test_a_tag_in_the_reasoning_is_deferred_and_dropped_if_the_answer_calls():
    assert parts(rescued(ReasoningDelta("Hm. " + CALL))) == ["Hm. ", MOSS]
    events = rescued(ReasoningDelta("Hm. " + CALL), TextDelta(TOKENS.replace("Moss", "Horten")))
    assert parts(events) == ["Hm. ", ("get_tide", {"harbor": "Horten"})]


def test_a_special_token_in_the_reasoning_ends_it():
    assert parts(rescued(ReasoningDelta("Hm. " + TOKENS), TextDelta("Done."))) == [
        "Hm. ",
        MOSS,
        "Done.",
    ]


def test_half_a_call_in_the_reasoning_stays_there():
    events = rescued(ReasoningDelta("Hm. " + TOKENS[:60]), TextDelta("Done."))
    assert collect(events).parts == [Reasoning("Hm. " + TOKENS[:60]), Text("Done.")]


def test_deferred_calls_are_kept_within_the_limit():
    limits = Limits(held_chars=150)
    calls = [CALL.replace("Moss", f"Moss{n}") for n in range(5)]
    events = rescued(ReasoningDelta("\n".join(calls)), limits=limits)
    assert parts(events)[1:] == [("get_tide", {"harbor": f"Moss{n}"}) for n in range(2)]
    assert calls[3] in parts(events)[0]


@pytest.mark.parametrize("call", [ENVELOPE, CALL.replace("Moss", "%s")])
@pytest.mark.parametrize("extra", [-1, 0, 1, 60])
def test_a_call_over_the_limit_is_text_with_a_notice(call, extra):
    limits = Limits(held_chars=300)
    up_to_the_call = call.index("\n</tool_call>")
    fill = 300 - up_to_the_call + len("%s") + extra
    text = "Look: " + call % ("x" * fill) + " and " + CALL
    is_short = extra <= 0
    whole = None
    for pieces in cuts(text):
        events = merge_deltas(rescued(*map(TextDelta, pieces), limits=limits))
        whole = whole or events
        assert events == whole
    found = parts(whole)
    if is_short:
        assert found == ["Look: ", ("get_tide", {"harbor": "x" * fill}), " and ", MOSS]
    else:
        assert found == [text.removesuffix(CALL), MOSS]
        assert NoticeCode.CANDIDATE_RELEASED in codes(whole)


def test_a_draft_over_the_limit_is_text_up_to_its_end():
    limits = Limits(held_chars=300)
    text = "<think>" + CALL + "x" * 300 + CALL
    for end, calls in (("", []), ("</think>" + CALL, [MOSS])):
        for pieces in cuts(text + end):
            events = rescued(*map(TextDelta, pieces), limits=limits)
            assert parts(events) == [text + end.removesuffix(CALL), *calls]


def test_long_broken_calls_are_read_again_a_few_times_only():
    opener = '<function_calls>\n<invoke name="get_tide">\n<parameter name="a">' + "x" * 300
    end = '</parameter>\n<parameter name="">'
    few, many = opener * 5 + end + CALL, opener * 20 + end + CALL
    assert parts(rescued(TextDelta(few))) == [few.removesuffix(CALL), MOSS]
    for pieces in cuts(many):
        assert parts(rescued(*map(TextDelta, pieces))) == [many]
