"""Calls of Hunyuan HY3: a name, a separator, and pairs of key and value, in tags with a suffix."""

import json

import pytest

from formats import FORMATS
from formats.conversation import Text
from tests.support.native_replies import calls_of, read_text, text_of


def call(*pairs, name="f", suffix="", line="", sep="<tool_sep>"):
    body = "".join(
        f"<arg_key>{key}</arg_key>{line}<arg_value>{value}</arg_value>{line}"
        for key, value in pairs
    )
    text = f"<tool_calls>{line}<tool_call>{name}{sep}{line}{body}</tool_call>{line}</tool_calls>"
    return text.replace(">", f"{suffix}>") if suffix else text


def calls(text):
    reply = read_text(FORMATS["hunyuan"], text)
    assert not reply.failure, reply.failure
    return [(name, json.loads(arguments)) for name, arguments in calls_of(reply)]


@pytest.mark.parametrize("suffix", ["", ":opensource"])
@pytest.mark.parametrize("line", ["", "\n"])
@pytest.mark.parametrize("sep", ["<tool_sep>", ""])
def test_tags_may_have_a_suffix_and_space_between_them(suffix, line, sep):
    text = call(("n", "6"), ("a", "x y"), suffix=suffix, line=line, sep=sep)
    assert calls(text) == [("f", {"n": 6, "a": "x y"})]
    assert calls(call(suffix=suffix, line=line, sep=sep)) == [("f", {})]


def test_several_calls_in_a_block_and_an_undeclared_tool():
    second = "<tool_call>other<tool_sep><arg_key>n</arg_key><arg_value>1</arg_value></tool_call>"
    text = call(("n", "6")).replace("</tool_calls>", second + "</tool_calls>")
    assert calls(text) == [("f", {"n": 6}), ("other", {"n": "1"})]


def test_tags_in_a_value_are_data_unless_structure_follows():
    value = "a </arg_value> b </tool_call> c <tool_calls> d"
    assert calls(call(("a", value))) == [("f", {"a": value})]


FAULTS = {
    "<tool_calls><tool_call>f<tool_sep><arg_key>a</arg_key><arg_val": "truncated",
    "<tool_calls><tool_call>f": "truncated",
    "<tool_calls><tool_call><tool_sep><arg_key>a</arg_key><arg_value>1</arg_value></tool_call>": (
        "missing_name"
    ),
    "<tool_calls><tool_call>f<tool_sep><arg_key>a</arg_key></tool_call></tool_calls>": "malformed",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_broken_call_is_a_fault_and_no_text(text):
    reply = read_text(FORMATS["hunyuan"], "Hm. " + text)
    assert reply.faults == [FAULTS[text]]
    assert reply.parts == [Text("Hm. ")]


@pytest.mark.parametrize(
    "prose",
    ["HY3 writes <tool_calls> and <tool_call>.", "<tool_calls>no call</tool_calls>"],
)
def test_prose_about_the_tags_stays_whole(prose):
    assert text_of(read_text(FORMATS["hunyuan"], prose)) == prose
