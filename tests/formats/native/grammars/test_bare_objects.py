"""JSON without a marker: a call only at the start of the answer, and only if it looks like one."""

import json

import pytest

from formats import FORMATS, CallFault, Limits, TextDelta, Tool, Toolbox
from formats.conversation import Text
from formats.events import ToolCallDelta
from formats.native.rescue import CallRescue
from tests.support.native_replies import calls_of, read_text, text_of

LLAMA = FORMATS["llama"]
assert LLAMA
F = [("f", {"a": "x"})]


def read(text):
    reply = read_text(LLAMA, text)
    calls = [(name, json.loads(arguments)) for name, arguments in calls_of(reply)]
    return calls, text_of(reply), [*reply.faults]


@pytest.mark.parametrize("text", [
    '{"name": "f", "parameters": {"a": "x"}}',
    '\n {"name":"f","arguments":{"a":"x"}}',
    '{"type": "function", "name": "f", "parameters": {"a": "x"}}',
    '{"id": "c1", "type": "function", "name": "f", "arguments": {"a": "x"}}',
    '{"name": "f", "parameters": {"a": "x"}, "type": "function"}',
    '{"parameters": {"a": "x"}, "name": "f"}',
    '{"function": "f", "parameters": {"a": "x"}}',
    '{"type": "function", "function": {"name": "f", "arguments": {"a": "x"}}}',
    '{"name": "f", "parameters": "{\\"a\\": \\"x\\"}"}',
    '[{"name": "f", "parameters": {"a": "x"}}]',
    '{"name": "f", "parameters": {"a": "x"}};',
    '<|python_tag|>{"name": "f", "parameters": {"a": "x"}}<|eom_id|>',
])  # fmt: skip
def test_a_call_is_read_in_every_order_of_its_keys(text):
    assert read(text) == (F, "", [])


@pytest.mark.parametrize("between", ["; ", ";", "\n", " ;\n", " "])
def test_several_objects_follow_each_other(between):
    text = between.join(['{"name": "f", "parameters": {"a": "x"}}', '{"name": "g"}'])
    assert read(text) == ([*F, ("g", {})], "", [])


@pytest.mark.parametrize("after", ["\nDone.", "; ok", ' {"x": 1}', " {"])
def test_text_after_the_objects_is_kept(after):
    assert read('{"name": "f", "parameters": {"a": "x"}}' + after) == (F, after, [])


@pytest.mark.parametrize("text", [
    '{"name": "Bob", "age": 4}', '{"name": "f", "age": 4}', '{"name": "Bob"}', "{}", "[]", "[{}]",
    '{"type": "object", "properties": {}}', '{"parameters": {"a": "x"}}', '{"x": 1}', '{"name": 4}',
    '{"parameters": {"a": "x', '{"name": "B', '{"na', "{", '{"name": "f", "parameters": {{',
    '{"type": "function", "function": {"name": "h", "description": "d", "parameters": {}}}',
    'So: {"name": "f", "parameters": {"a": "x"}}',
    '`{"name": "f", "parameters": {"a": "x"}}`',
    '{"name": "' + "f" * 600 + '", "parameters": {}}',
])  # fmt: skip
def test_an_answer_in_json_that_is_not_a_call_stays_text(text):
    assert read(text) == ([], text, [])


@pytest.mark.parametrize("text", [
    '{"name": "f', '{"name": "f"', '{"name": "f", "para', '{"name": "f", "parameters": ',
    '{"name": "f", "parameters": {"a": "x', '{"name": "f", "parameters": {}',
    '{"name": "f", "x": {"a": "x', "<|python_tag|>", '<|python_tag|>{"name"',
])  # fmt: skip
def test_a_call_that_is_cut_off_fails(text):
    assert read(text) == ([], "", [CallFault.TRUNCATED])


@pytest.mark.parametrize("end", ["</function>", "", "<|eom_id|>"])
@pytest.mark.parametrize("name", ["f", "undeclared"])
def test_a_custom_tag_is_a_call_if_an_object_follows(name, end):
    text = f'Go. <function={name}>{{"a": "x"}}{end}'
    assert read(text) == ([(name, {"a": "x"})], "Go. ", [])


@pytest.mark.parametrize("text", ["Write <function=h>", "<function=h> and </function>", "<functi"])
def test_prose_about_custom_tags_stays_text(text):
    assert read(text) == ([], text, [])


def test_arguments_stream_once_the_name_is_known():
    rescue = CallRescue(LLAMA, Toolbox())
    sent = rescue.feed([TextDelta('{"name": "h", "parameters": {"a": "some')])
    sent += rescue.feed([TextDelta(" words")])
    assert "".join(e.json for e in sent if isinstance(e, ToolCallDelta)) == '{"a": "some words'


def test_an_answer_in_json_is_sent_as_soon_as_it_cannot_be_a_call():
    rescue = CallRescue(LLAMA, Toolbox([Tool("f", None, b"{}")]))
    assert not rescue.feed([TextDelta('{"name": "Bob", ')])
    sent = rescue.feed([TextDelta('"age": 4')])
    assert "".join(e.text for e in sent if isinstance(e, TextDelta)) == '{"name": "Bob", "age": 4'


def test_an_object_in_another_order_that_is_too_long_to_hold_is_text():
    text = '{"parameters": {"a": "' + "x" * 5000 + '"}, "name": "f"}'
    rescue = CallRescue(LLAMA, Toolbox(), Limits(held_chars=1000))
    sent = [
        e for at in range(0, len(text), 100) for e in rescue.feed([TextDelta(text[at : at + 100])])
    ]
    assert Text("".join(e.text for e in sent if isinstance(e, TextDelta))) == Text(text)
