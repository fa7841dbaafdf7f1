"""Reasoning that a model writes into its text, between markers, becomes reasoning."""

import pytest

from formats import FORMATS, NoticeCode, ReasoningDelta, TextDelta, build_pipeline, collect
from formats.native.format import NativeFormat, ReasoningMarkers, SplitThinking
from formats.native.markers import literal
from formats.native.rescue import CallRescue
from tests.support.native_replies import (
    TOOLS,
    calls_of,
    read_deltas,
    read_text,
    reasoning_of,
    text_of,
)
from tests.support.wire import IDENTITY, text_from

QWEN = FORMATS["qwen"]
assert QWEN
CALL = '<tool_call>{"name": "f", "arguments": {"n": 1}}</tool_call>'
OWN = NativeFormat(
    QWEN.grammars, reasoning=ReasoningMarkers([literal("[THINK]")], [literal("[/THINK]")])
)
FORMATS_AND_TAGS = pytest.mark.parametrize(
    ("native", "begin", "end"),
    [
        (OWN, "[THINK]", "[/THINK]"),
        (QWEN.with_split_thinking(SplitThinking.MARKED), "<think>", "</think>"),
        (OWN.with_split_thinking(SplitThinking.MARKED), "<think>", "</think>"),
        (OWN.with_split_thinking(SplitThinking.OPENED), "", "[/THINK]"),
        (QWEN.with_split_thinking(SplitThinking.OPENED), "", "</think>"),
        (QWEN.with_split_thinking(SplitThinking.OPENED), "<think>", "</think>"),
    ],
)


def parts(reply):
    return reasoning_of(reply), text_of(reply), calls_of(reply)


@FORMATS_AND_TAGS
def test_text_between_markers_is_reasoning(native, begin, end):
    reply = read_text(native, f"{begin}\nOne\ntwo.\n{end}\n\nThree.\n{CALL}")
    assert parts(reply) == ("One\ntwo.\n", "Three.\n", [("f", '{"n": 1}')])
    assert NoticeCode.REASONING_SPLIT in [n.code for n in reply.notices] or not begin


@FORMATS_AND_TAGS
def test_a_call_inside_closed_reasoning_is_a_draft(native, begin, end):
    assert parts(read_text(native, f"{begin}Try {CALL}?{end}No.")) == (f"Try {CALL}?", "No.", [])


@FORMATS_AND_TAGS
def test_a_call_inside_reasoning_that_does_not_end_is_a_call(native, begin, end):
    assert parts(read_text(native, f"{begin}Go. {CALL}")) == ("Go. ", "", [("f", '{"n": 1}')])


def test_text_before_an_end_without_a_beginning_was_already_sent():
    reply = read_text(OWN, f"One.[/THINK]Two.{CALL}")
    assert parts(reply) == ("", "One.Two.", [("f", '{"n": 1}')])
    assert NoticeCode.MARKUP_REMOVED in [notice.code for notice in reply.notices]


def test_quoted_markers_are_text():
    text = "Between `[THINK]` and `[/THINK]`."
    assert parts(read_text(OWN, text)) == ("", text, [])


def test_think_is_text_unless_the_format_splits_it():
    text = "<think>One.</think>Two."
    assert parts(read_text(QWEN, text)) == ("", text, [])
    assert parts(read_text(OWN, text)) == ("", text, [])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("split", "text"),
    [
        (None, "<think>One.</think>Two."),
        ("never", "<think>One.</think>Two."),
        ("marked", "Two."),
        ("opened", "Two."),
    ],
)
def test_every_format_can_split_off_thinking(name, split, text):
    pipeline = build_pipeline(
        client="openai",
        upstream="openai",
        format_name=name,
        identity=IDENTITY,
        split_thinking=split,
    )
    body = text_from("openai", ["<think>One.", "</think>Two."], "content")
    events = pipeline.decode(body) + pipeline.decode_end()
    assert text_of(collect(events)) == text


def test_markers_in_the_reasoning_are_removed():
    reply = read_text(OWN, "[THINK]One.[/THINK] Two.", "reasoning")
    assert parts(reply) == ("One. Two.", "", [])


def test_an_answer_begins_as_text_if_the_upstream_separates_the_reasoning():
    native = QWEN.with_split_thinking(SplitThinking.OPENED)
    reply = read_deltas(native, ReasoningDelta("One."), TextDelta("Two."))
    assert parts(reply) == ("One.", "Two.", [])


def test_opened_reasoning_streams():
    rescue = CallRescue(QWEN.with_split_thinking(SplitThinking.OPENED), TOOLS)
    assert rescue.feed([TextDelta("One.")]) == [ReasoningDelta("One.")]
