"""Calls as a name, and pairs of key and value: of GLM."""

import json

import pytest

from formats import Limits, Tool, Toolbox, ToolCallDelta, collect
from formats.conversation import Text
from tests.support.wire import cuts, decode, event_reads, stream, text_from

SCHEMA = b'{"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}}'
TOOLS = Toolbox([Tool("f", None, SCHEMA), Tool("edit-file", None, b"{}")])


def call(*pairs, name="f", line="\n"):
    written = [
        f"<arg_key>{key}</arg_key>{line}<arg_value>{value}</arg_value>{line}"
        for key, value in pairs
    ]
    return f"<tool_call>{name}{line}{''.join(written)}</tool_call>"


def read(text, tools=TOOLS):
    """The reply to a text, which is the same at any split."""
    replies = [
        collect(
            decode(event_reads(text_from("openai", p, "content")), format_name="glm", tools=tools)
        )
        for p in cuts(text, 3)
    ]
    parts = [reply.parts for reply in replies]
    assert parts == [parts[0]] * len(parts)
    assert [reply.faults for reply in replies] == [replies[0].faults] * len(replies)
    return replies[0]


def calls(text, tools=TOOLS):
    reply = read(text, tools)
    assert not reply.failure, reply.failure
    return [(part.name, json.loads(part.arguments)) for part in reply.parts]


@pytest.mark.parametrize("line", ["", "\n", "\r\n", "\n\n  ", "\\n", " \\n\n"])
def test_any_space_may_stand_between_tags(line):
    assert calls(call(("x", "1"), ("y", " a\\n "), line=line)) == [("f", {"x": 1, "y": " a\\n "})]
    assert calls(call(line=line) + "\n" + call(line=line)) == [("f", {}), ("f", {})]


PROSE = [
    "GLM wraps calls in <tool_call> and </tool_call> tags.",
    "The pair <tool_call>name</tool_call> is a call without arguments.",
    "Write <tool_call> then the name, <arg_key> and <arg_value>.",
    "<tool_call>the name of the tool</tool_call>",
    "<tool_call>f <b>bold</b></tool_call>",
    "<tool_call>f {x}</tool_call>",
    "A <tool_call>f( </tool_call>",
    "<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>",
]


@pytest.mark.parametrize("prose", PROSE)
@pytest.mark.parametrize("tools", [TOOLS, Toolbox()])
def test_prose_about_the_tags_stays_whole(prose, tools):
    assert read(prose, tools).parts == [Text(prose)]


def test_prose_after_a_call_is_no_call():
    text = call(("x", "1")) + " Between <tool_call> and </tool_call> is a name."
    first, second = read(text).parts
    assert json.loads(first.arguments) == {"x": 1}
    assert second == Text(" Between <tool_call> and </tool_call> is a name.")


VALUES = [
    "tag </arg_value> inside",
    "</tool_call>",
    "see </tool_call> and go on",
    "<tool_call>f</tool_call> x",
    "<arg_key>z</arg_key><arg_value>",
    "a < b && c > d",
    "\n  two\n  lines\n",
    "",
]


@pytest.mark.parametrize("value", VALUES)
def test_tags_in_a_value_are_data_unless_structure_follows(value):
    assert calls(call(("y", value), ("x", "1"))) == [("f", {"y": value, "x": 1})]


FAULTS = {
    "<tool_call>": "truncated",
    "<tool_call>f": "truncated",
    "<tool_call>f\n<arg_k": "truncated",
    "<tool_call>f<arg_key>x": "truncated",
    "<tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value>\n": "truncated",
    "<tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value></tool_": "truncated",
    '<tool_call>f{"x": 1': "truncated",
    "<tool_call>f{": "truncated",
    "<tool_call>f<arg_key>x</arg_key></tool_call>": "malformed",
    "<tool_call>f<arg_key>x</arg_key>1</tool_call>": "malformed",
    "<tool_call>f<arg_key>x<arg_value>1</arg_value></tool_call>": "malformed",
    "<tool_call><arg_key>x</arg_key><arg_value>1</arg_value></tool_call>": "missing_name",
    '<tool_call>f{"x": }</tool_call>': "invalid_json",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_broken_call_is_a_fault_and_no_text(text):
    reply = read("Hm. " + text)
    assert reply.faults == [FAULTS[text]]
    assert reply.failure
    assert reply.parts == [Text("Hm. ")]


def test_a_json_object_may_stand_for_the_pairs():
    assert calls('<tool_call>f\n{"x": 1, "y": "</tool_call>"}\n</tool_call>') == [
        ("f", {"x": 1, "y": "</tool_call>"})
    ]


def test_an_empty_block_is_dropped():
    assert read("One.<tool_call>\n</tool_call>").parts == [Text("One.")]


def test_a_repeated_closing_tag_is_dropped():
    assert calls(call(("x", "1")) + "\n</tool_call>") == [("f", {"x": 1})]


def test_a_large_string_streams():
    opening = call(("y", "")).removesuffix("</arg_value>\n</tool_call>")
    body = stream(*({"content": part} for part in [opening, *["x" * 1000] * 40]))
    events = decode(body, format_name="glm", tools=TOOLS, limits=Limits(held_chars=5000))
    assert sum(len(event.json) for event in events if isinstance(event, ToolCallDelta)) > 40_000
