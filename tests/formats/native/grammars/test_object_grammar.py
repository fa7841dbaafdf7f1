"""Calls as objects with bare keys and delimited strings: of Gemma 4 and FunctionGemma."""

import json

import pytest

from formats import FORMATS
from tests.support.native_replies import calls_of, read_text, reasoning_of, text_of

GEMMA = FORMATS["gemma"]
CALL = "<|tool_call>call:g{}<tool_call|>"
SECOND = ("g", "{}")


def arguments(text):
    """Return the arguments of the only call."""
    reply = read_text(GEMMA, text)
    assert (reply.faults, text_of(reply)) == ([], "")
    [(name, written)] = calls_of(reply)
    assert name == "f"
    return json.loads(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('a:<|"|>x, {y}: [z]<|"|>', {"a": "x, {y}: [z]"}),
        ('a:<|"|><tool_call|> <|tool_call>call:g{}<|"|>', {"a": "<tool_call|> <|tool_call>call:g{}"}),
        ('<|"|>a<|"|>:<|"|><|"|>', {"a": ""}),
        ("n:6", {"n": 6}),
        (" n : -6.5e3 , a : word of http://x ", {"n": -6500.0, "a": "word of http://x"}),
        ("a:6", {"a": "6"}),
        ("o:[1,[],{},true,null,<|\"|>s<|\"|>]", {"o": [1, [], {}, True, None, "s"]}),
        ("o:{b:{c:word}}", {"o": {"b": {"c": "word"}}}),
        ('"a":"b"', {"a": "b"}),
        ("n:six", {"n": "six"}),
        ("other:6", {"other": 6}),
    ],
)  # fmt: skip
def test_values_become_json(written, expected):
    assert arguments(f"<|tool_call>call:f{{{written}}}<tool_call|>") == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("n:<escape>6<escape>", {"n": 6}),
        ("a:<escape>6<escape>", {"a": "6"}),
        ("o:<escape>[1]<escape>", {"o": [1]}),
        ("o:<escape>text<escape>", {"o": "text"}),
        ("n:6", {"n": 6}),
    ],
)
def test_delimited_values_of_functiongemma_have_the_types_of_the_schema(written, expected):
    call = f"<start_function_call>call:f{{{written}}}<end_function_call>"
    assert arguments(call) == expected


@pytest.mark.parametrize(
    "end", ["", "\n", "<tool_call|>", "</tool_call>", "<tool", " x<tool_call|>"]
)
def test_the_end_of_a_call_may_be_missing_or_late(end):
    assert arguments("<|tool_call>call:f{n:6}" + end) == {"n": 6}


def test_calls_may_share_a_block():
    reply = read_text(GEMMA, "<|tool_call>call:f{n:6}call:g{}<tool_call|>")
    assert calls_of(reply) == [("f", '{"n": 6}'), SECOND]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<|tool_call>call:f{a:<|"|>b<|"|><tool_call|>', "malformed"),
        ('<|tool_call>call:f{a:<|"|>b}<tool_call|>', "malformed"),
        ('<|tool_call>call:f{a:<|"|>b<|"|> c}<tool_call|>', "malformed"),
        ("<|tool_call>call:f{n:6]}<tool_call|>", "malformed"),
        ("<|tool_call>call:f{n:6,}<tool_call|>", "malformed"),
        ("<|tool_call>call:f{n:}<tool_call|>", "malformed"),
        ("<|tool_call>call:f{:6}<tool_call|>", "malformed"),
        ('<|tool_call>call:f{a:"b, c"}<tool_call|>', "malformed"),
        ("<|tool_call>call:f{o:" + "[" * 100 + "}<tool_call|>", "malformed"),
        ("<|tool_call>call:f<tool_call|>", "malformed"),
        ("<|tool_call>call:{n:6}<tool_call|>", "missing_name"),
        ("<|tool_call>{n:6}<tool_call|>", "missing_name"),
    ],
)
def test_a_broken_call_is_a_fault_and_the_next_one_is_read(text, fault):
    reply = read_text(GEMMA, text + CALL)
    assert ([str(f) for f in reply.faults], text_of(reply)) == ([fault], "")
    assert calls_of(reply) == [SECOND]


@pytest.mark.parametrize(
    "text",
    ["", "ca", "call:", "call:f", "call:f{", "call:f{n:6", 'call:f{a:<|"|>b<|"|>', "call:f{o:["],
)
def test_a_call_that_is_cut_off_is_truncated(text):
    reply = read_text(GEMMA, "<|tool_call>" + text)
    assert ([str(fault) for fault in reply.faults], reply.parts) == (["truncated"], [])


@pytest.mark.parametrize(
    "text", ["<|tool_call> calls a tool.", "Use `<|tool_call>call:f{}`.", "<tool_"]
)
def test_prose_about_the_markers_stays_whole(text):
    assert text_of(read_text(GEMMA, text)) == text


def test_a_thought_is_reasoning():
    reply = read_text(GEMMA, f"<|channel>thought\nLook.<channel|>Done.{CALL}<turn|>")
    assert (reasoning_of(reply), text_of(reply), calls_of(reply)) == ("Look.", "Done.", [SECOND])
