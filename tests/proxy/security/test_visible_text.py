"""Hostile text is displayed with named invisible characters and highlighted markers."""

import json
import re

import pytest
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
    with_raw_arguments,
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
    assert [s.kind for s in shown] == ["text", "gap", "text", "text", "text", "gap", "text"]
    assert [s.text for s in shown if s.is_wrong] == ["X"]


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


def failed_call_events(arguments, dialect, size=5):
    upstream = openai_call(arguments, size) if dialect == "openai" else anthropic_call(arguments)
    return upstream, decode_answer(upstream, dialect)


def openai_call(arguments, size):
    first = {"index": 0, "id": "call_1", "type": "function"}
    fragments = [arguments[n : n + size] for n in range(0, len(arguments), size)]
    deltas = [
        {"tool_calls": [first | {"function": {"name": "get_tide", "arguments": ""}}]},
        *({"tool_calls": [{"index": 0, "function": {"arguments": f}}]} for f in fragments),
    ]
    return stream(*deltas)


def anthropic_call(arguments):
    block = {"type": "tool_use", "id": "toolu_1", "name": "get_tide", "input": {}}
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "x", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": arguments[n : n + 5]},
            }
            for n in range(0, len(arguments), 5)
        ),
        {"type": "content_block_stop", "index": 0},
    ]
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


BROKEN_ARGUMENTS = {
    "an unquoted key": ('{harbor: "Bergen"}', "h"),
    "a bad number": ('{"harbor": "Bergen", "days": 2x}', "2"),
    "a single quote": ("{\"harbor\": 'Bergen'}", "'"),
    "markup": ('{"harbor": <b onclick="x()">}', "<"),
    "a list": ('["Bergen"]', "["),
}


@pytest.mark.parametrize(("arguments", "wrong"), BROKEN_ARGUMENTS.values(), ids=BROKEN_ARGUMENTS)
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_the_arguments_of_a_failed_call_are_whole_and_their_first_error_is_marked(
    arguments, wrong, dialect
):
    """N3. Events end before the character that breaks the JSON; the page shows what was sent."""
    data, events = failed_call_events(arguments, dialect)
    pieces = with_raw_arguments(pieces_of(events), data, dialect)
    (call,) = [piece for piece in pieces if piece.channel == "tool call"]
    assert call.text == arguments
    assert call.fault in ("invalid_json", "non_object_args")
    assert not [piece for piece in pieces if piece.title.startswith("tool call failed")]
    assert len([event for event in events if isinstance(event, ToolCallFailed)]) == 1
    text = join_pieces(pieces)
    spans = locate_events(events, text)
    place = locate_failure(events, text, spans, leaked=False)
    assert text[place:].startswith(wrong)
    shown = segments(text, spans, wrong=place)
    assert [s.text for s in shown if s.is_wrong] == [wrong]


@pytest.mark.parametrize("size", [5, 100])
def test_text_after_complete_arguments_is_marked_where_it_begins(size):
    """N3. The client does not get the last brace, but the arguments were right up to it."""
    data, events = failed_call_events('{"harbor": "Bergen"} {"again": 1}', "openai", size)
    text = join_pieces(with_raw_arguments(pieces_of(events), data, "openai"))
    place = locate_failure(events, text, locate_events(events, text), leaked=False)
    assert text[place:].lstrip().startswith('{"again": 1}')


def test_invalid_json_in_a_native_call_is_marked_at_the_character():
    """N3. The neighbour in text: the marker before the call is not what is wrong."""
    text = 'Well. <|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{"a": oops}'
    events = [
        TextDelta("Well. "),
        ToolCallStart("c", "get"),
        ToolCallDelta('{"a": '),
        ToolCallFailed(CallFault.INVALID_JSON),
    ]
    place = locate_failure(events, text, locate_events(events, text), leaked=False)
    assert text[place:] == "oops}"


def test_a_comma_that_delivery_withholds_is_not_marked():
    """N3. It is withheld until the next key, which may have to be dropped."""
    text = '{"harbor": "Bergen", <b>days: 2}'
    events = [
        ToolCallStart("c", "f"),
        ToolCallDelta('{"harbor": "Bergen"'),
        ToolCallFailed(CallFault.INVALID_JSON),
    ]
    place = locate_failure(events, text, locate_events(events, text), leaked=False)
    assert text[place:] == "<b>days: 2}"


def test_only_a_failed_call_gets_its_raw_text():
    """N3. Calls are matched by what was decoded of them; a chunk that is not JSON is skipped."""
    two = [
        {
            "index": n,
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": "f", "arguments": a},
        }
        for n, a in enumerate(('{"a": 1}', '{"a": 1 oops'))
    ]
    data = stream({"tool_calls": two[:1]}, {"tool_calls": two[1:]}) + b"data: {broken\n\n"
    pieces = with_raw_arguments(pieces_of(decode_answer(data, "openai")), data, "openai")
    calls = [(piece.text, piece.fault) for piece in pieces if piece.channel == "tool call"]
    assert calls == [('{"a": 1}', ""), ('{"a": 1 oops', "invalid_json")]


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
