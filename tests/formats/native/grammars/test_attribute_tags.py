"""Calls in tags with attributes: of MiniMax M2, Step-3, and Anthropic's own XML."""

import json

import pytest

from formats import Tool, Toolbox, collect
from formats.conversation import Text
from tests.support.wire import cuts, decode, event_reads, text_from

SCHEMA = b'{"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}}'
TOOLS = Toolbox([Tool("f", None, SCHEMA), Tool("g", None, SCHEMA)])
BLOCKS = {
    "minimax": "minimax:tool_call",
    "deepseek": "function_calls",
    "kimi": "function_calls",
}
EACH = pytest.mark.parametrize(("format_name", "block"), BLOCKS.items())


def read(text, format_name):
    """The reply to a text, which is the same at any split."""
    replies = [
        collect(
            decode(
                event_reads(text_from("openai", pieces, "content")),
                format_name=format_name,
                tools=TOOLS,
            )
        )
        for pieces in cuts(text, 3)
    ]
    for reply in replies:
        assert (reply.parts, reply.faults) == (replies[0].parts, replies[0].faults)
    return replies[0]


def calls(reply):
    assert not reply.failure, reply.failure
    return [(part.name, json.loads(part.arguments)) for part in reply.parts]


INVOKES = [
    '<invoke name="f">',
    "<invoke name='f'>",
    "<invoke name=f>",
    '<invoke id="1" name="f">',
    '<invoke name = "f" >',
]
PARAMETERS = ['name="x"', "name='x'", "name=x", 'type="int" name="x"', "type=int name=x "]


@EACH
@pytest.mark.parametrize("invoke", INVOKES)
@pytest.mark.parametrize("parameter", PARAMETERS)
def test_attributes_may_have_any_quotes_and_any_order(format_name, block, invoke, parameter):
    text = f"<{block}>{invoke}<parameter {parameter}>7</parameter></invoke></{block}>"
    assert calls(read(text, format_name)) == [("f", {"x": 7})]


@EACH
def test_an_invoke_without_a_block_needs_a_declared_name(format_name, block):
    text = 'So: <invoke name="{}">\n<parameter name="y">a</parameter>\n</invoke>'
    [said, call] = read(text.format("f"), format_name).parts
    assert (said, call.name) == (Text("So: "), "f")
    assert read(text.format("h"), format_name).parts == [Text(text.format("h"))]


@EACH
def test_an_undeclared_tool_in_a_block_is_forwarded(format_name, block):
    text = f'<{block}><invoke name="h"><parameter name="x">7</parameter></invoke></{block}>'
    assert calls(read(text, format_name)) == [("h", {"x": "7"})]


@EACH
def test_tags_in_a_value_are_data_unless_structure_follows(format_name, block):
    value = f'<invoke name="g"> a </parameter> b </invoke> c <{block}> d </{block}>\n'
    text = f'<{block}><invoke name="f"><parameter name="y">{value}</parameter></invoke></{block}>'
    assert calls(read(text, format_name)) == [("f", {"y": value})]


@EACH
def test_prose_about_the_tags_stays_whole(format_name, block):
    prose = f"Write <{block}> and </{block}>, and <invoke> with <parameter name=…> inside."
    assert read(prose, format_name).parts == [Text(prose)]


FAULTS = {
    '<{0}><invoke name="f"><parameter name="y">a': "truncated",
    '<{0}><invoke name="f"><parameter name="y">a</parameter>': "truncated",
    '<{0}><invoke name="f"': "truncated",
    "<{0}><inv": "truncated",
    "<{0}><invoke><parameter name='y'>a</parameter></invoke></{0}>": "missing_name",
    '<{0}><invoke name="f"\n<parameter name="y">a</parameter></invoke></{0}>': "bad_header",
    '<{0}><invoke name="f">x=7</invoke></{0}>': "malformed",
}


@EACH
@pytest.mark.parametrize("text", FAULTS)
def test_a_broken_call_is_a_fault_and_no_text(format_name, block, text):
    reply = read("Hm. " + text.format(block), format_name)
    assert reply.faults == [FAULTS[text]]
    assert reply.parts == [Text("Hm. ")]


STEP = "<｜tool_calls_begin｜>{}<｜tool_calls_end｜>"
STEP_CALL = (
    '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{}">'
    '<steptml:parameter name="x">{}</steptml:parameter></steptml:invoke><｜tool_call_end｜>'
)


def test_calls_of_step_3_stand_between_tokens():
    text = STEP.format("\n" + STEP_CALL.format("f", 1) + "\n" + STEP_CALL.format("h", 2) + "\n")
    assert calls(read(text, "step")) == [("f", {"x": 1}), ("h", {"x": "2"})]
    assert calls(read(STEP_CALL.format("f", 1), "step")) == [("f", {"x": 1})]
    prose = "Step writes <｜tool_calls_begin｜> and <｜tool_sep｜>."
    assert read(prose, "step").parts == [Text(prose)]
    for cut in (
        "<｜tool_calls_begin｜>",
        "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>",
    ):
        assert read(cut, "step").faults == ["truncated"]


def test_step_3_5_and_mimo_write_the_tags_of_qwen():
    text = "<tool_call>\n<function=f>\n<parameter=x>\n7\n</parameter>\n</function>\n</tool_call>"
    assert calls(read(text, "step")) == [("f", {"x": 7})]


@pytest.mark.parametrize(
    ("written", "value"),
    [("a", "a"), ("\na\n", "a"), ("a\n", "a\n"), ("\n\na\n\n", "\na\n"), ("", ""), ("\n", "")],
)
def test_seed_values_may_begin_on_the_line_of_their_tag(written, value):
    text = (
        f"<seed:tool_call>\n<function=f>\n<parameter=y>{written}</parameter>\n</function>\n"
        "</seed:tool_call>"
    )
    assert calls(read(text, "seed")) == [("f", {"y": value})]
