"""Hostile text is displayed with named invisible characters and highlighted markers."""

import re

from hypothesis import given
from hypothesis import strategies as st

from formats import TextDelta, ToolCallDelta, ToolCallFailed, ToolCallStart
from formats.events import CallFault
from proxy.security.visible_text import Segment, Span, segments, visible
from proxy.support.answer_parts import (
    decode_answer,
    join_pieces,
    locate_events,
    locate_failure,
    pieces_of,
)
from tests.support.wire import stream


def test_invisible_characters_are_named_and_counted():
    assert segments("a\u200b\u200b\x1b[0m") == [
        Segment("text", "a"),
        Segment("invisible", "U+200B×2", title="zero width space"),
        Segment("invisible", "ESC", title="control character"),
        Segment("text", "[0m"),
    ]
    assert visible("a\u202eb\x00") == "a⟦U+202E⟧b⟦NUL⟧"


def test_segments_separate_markers_and_name_their_events():
    text = "Hi <|tool_call_begin|>f"
    assert segments(text, [Span(0, 3, 1), Span(22, 23, 2)], wrong=3) == [
        Segment("text", "Hi ", 1),
        Segment("marker", "<|tool_call_begin|>", None, is_wrong=True),
        Segment("text", "f", 2),
    ]


def test_configured_markers_are_highlighted():
    assert segments("@@call", more_markers=["@@call"]) == [Segment("marker", "@@call")]


def test_a_long_text_is_shortened_to_its_ends_and_the_error():
    shown = segments("a" * 50_000 + "X" + "b" * 50_000, wrong=50_000, window=1000)
    assert [s.kind for s in shown] == ["text", "gap", "text", "text", "gap", "text"]
    assert shown[3].text.startswith("X")
    assert shown[3].is_wrong


@given(
    st.text(st.sampled_from("ab<|>x\n\u200b\u202e\x00`"), max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5),
    st.none() | st.integers(0, 60),
)
def test_no_text_is_lost_or_added(text, ranges, wrong):
    spans = [Span(min(pair), max(pair), number) for number, pair in enumerate(ranges)]
    shown = segments(text, spans, wrong=wrong)
    seen = "".join(s.text for s in shown if s.kind != "invisible")
    plain = "".join(char for char in text if char not in "\u200b\u202e\x00")
    assert re.sub("⟦[^⟧]*⟧", "", seen) == plain


def test_events_are_located_in_the_text():
    text = 'Let me.<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>'
    events = [TextDelta("Let me."), ToolCallStart("c", "f"), ToolCallDelta('{"a": 1}')]
    found = {span.event: text[span.start : span.end] for span in locate_events(events, text)}
    assert found == {0: "Let me.", 2: '{"a": 1}'}  # a name of one letter is not located


def test_a_failure_is_located_at_the_start_of_the_broken_call():
    text = 'Well. <|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{"a'
    events = [
        TextDelta("Well. "),
        ToolCallStart("c", "get"),
        ToolCallDelta('{"a'),
        ToolCallFailed(CallFault.TRUNCATED),
    ]
    spans = locate_events(events, text)
    assert locate_failure(events, text, spans, leaked=False) == 6
    assert locate_failure(events[:1], text, spans, leaked=False) is None
    assert locate_failure(events[:1], text, spans, leaked=True) == 6


def test_an_answer_is_assembled_by_channel_even_if_broken():
    wire = stream({"reasoning_content": "Hm."}, {"content": "Yes."})
    pieces = pieces_of(decode_answer(wire, "openai"))
    assert [(p.channel, p.text, p.offset) for p in pieces[:2]] == [
        ("reasoning", "Hm.", 0),
        ("text", "Yes.", 3),
    ]
    assert join_pieces(pieces) == "Hm.Yes."
    for broken in (b"data: {\n\n", b"", b"\xff\xfe", wire[:50], b"<html>", b'{"error": {}}'):
        assert pieces_of(decode_answer(broken, "openai"))[-1].channel in ("failure", "text")
