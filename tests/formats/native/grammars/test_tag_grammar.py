"""Calls in tags: of Qwen3-Coder, DSML of DeepSeek, and Kimi K3."""

import json

import pytest

from formats import FORMATS, NoticeCode, Tool, Toolbox, collect
from tests.support.native_replies import calls_of, read_text, text_of
from tests.support.wire import cuts, decode, event_reads, reply_from, stream, text_from

KIMI = FORMATS["kimi"]
SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "int"}, "y": {"type": "str"}},
    "required": ["x"],
}
TOOLS = Toolbox([Tool("f", None, json.dumps(SCHEMA).encode())])


def coder(*parameters, start="<function=f>"):
    """A call of f as Qwen3-Coder writes it."""
    written = [f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters]
    return f"<tool_call>\n{start}\n{''.join(written)}</function>\n</tool_call>"


def dsml(*parameters, start='<｜DSML｜invoke name="f">'):
    """A call of f as DeepSeek V3.2 writes it."""
    written = [
        f'<｜DSML｜parameter name="{key}" string="false">{value}</｜DSML｜parameter>\n'
        for key, value in parameters
    ]
    return (
        f"<｜DSML｜function_calls>\n{start}\n{''.join(written)}</｜DSML｜invoke>\n"
        "</｜DSML｜function_calls>"
    )


FORMS = pytest.mark.parametrize(("format_name", "write"), [("qwen", coder), ("deepseek", dsml)])


def read(text, format_name):
    return reply_from(stream({"content": text}), format_name=format_name, tools=TOOLS)


def arguments(reply):
    return [json.loads(part.arguments) for part in reply.parts]


@FORMS
def test_t2_one_parameter_that_wraps_all_arguments_is_unwrapped(format_name, write):
    """T2"""
    reply = read(write(("arguments", '{"x": 1, "y": "a"}')), format_name)
    assert arguments(reply) == [{"x": 1, "y": "a"}]
    assert NoticeCode.ARGUMENTS_UNWRAPPED in [notice.code for notice in reply.notices]


@FORMS
@pytest.mark.parametrize(
    "parameters",
    [
        [("arguments", '{"x": 1, "z": 2}')],
        [("arguments", "[1]")],
        [("arguments", '{"x": 1}'), ("y", "a")],
        [("y", "a"), ("input", '{"x": 1}')],
        [("payload", '{"x": 1}')],
    ],
)
def test_t2_any_other_parameter_is_kept(format_name, write, parameters):
    """T2"""
    reply = read(write(*parameters), format_name)
    assert [list(given) for given in arguments(reply)] == [[key for key, _ in parameters]]
    assert NoticeCode.ARGUMENTS_UNWRAPPED not in [notice.code for notice in reply.notices]


@FORMS
def test_t2_a_parameter_that_the_tool_has_is_never_a_wrapper(format_name, write):
    """T2"""
    schema = b'{"properties": {"input": {"type": "object"}, "x": {"type": "integer"}}}'
    body = stream({"content": write(("input", '{"x": 1}'))})
    reply = reply_from(body, format_name=format_name, tools=Toolbox([Tool("f", None, schema)]))
    assert arguments(reply) == [{"input": {"x": 1}}]


@FORMS
def test_t4_types_with_names_of_other_languages_convert_values(format_name, write):
    """T4"""
    assert arguments(read(write(("x", "7")), format_name)) == [{"x": 7}]


@FORMS
def test_t5_null_in_capitals_is_null_where_no_string_is_allowed(format_name, write):
    """T5"""
    assert arguments(read(write(("x", "NULL")), format_name)) == [{"x": None}]


CUT = {
    "qwen": ["<function=f", "<function=f <b", "<function=" + "f" * 200 + ">"],
    "deepseek": ['<｜DSML｜invoke name="f"', "<｜DSML｜invoke name=<f"],
}
NAMELESS = {
    "qwen": ["<function=>", "<function= >"],
    "deepseek": ["<｜DSML｜invoke>", '<｜DSML｜invoke name="">', '<｜DSML｜invoke id="1">'],
}


@FORMS
def test_t7_a_call_without_a_usable_name_is_a_fault_and_no_text(format_name, write):
    """T7"""
    for fault, starts in (("bad_header", CUT), ("missing_name", NAMELESS)):
        for start in starts[format_name]:
            for pieces in cuts(f"Hm. {write(('x', '1'), start=start)}"):
                body = event_reads(text_from("openai", pieces, "content"))
                reply = collect(decode(body, format_name=format_name, tools=TOOLS))
                assert [part.text for part in reply.parts] == ["Hm. "], start
                assert reply.faults == [fault], start
                assert reply.failure


@FORMS
def test_t6_a_block_without_a_call_is_dropped_and_one_of_prose_is_kept_whole(format_name, write):
    """T6"""
    block, _, rest = write().partition("\n")
    end = rest.rpartition("\n")[2]
    for blank in ("", " ", "\n\n"):
        reply = read(f"Done.{block}{blank}{end}", format_name)
        assert [part.text for part in reply.parts] == ["Done."]
        assert NoticeCode.MARKUP_REMOVED in [notice.code for notice in reply.notices]
    prose = f"Done.{block} is followed by prose, and {end} ends it."
    assert [part.text for part in read(prose, format_name).parts] == [prose]


K3 = (
    '<|open|>call tool="f" index="1"<|sep|><|open|>argument key="n" type="number"<|sep|>6'
    "<|close|>argument<|sep|><|close|>call<|sep|>"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi <|close|>tools<|sep|>you", "Hi you"),
        ("A call is between <|open|>tools<|sep|> and <|close|>tools<|sep|>, always.", None),
        ("`<|close|>call<|sep|>` ends it.", None),
    ],
)
def test_stray_tags_of_special_tokens_are_removed_but_prose_about_them_stays_whole(text, expected):
    reply = read_text(KIMI, text)
    assert (text_of(reply), reply.faults) == (text if expected is None else expected, [])


@pytest.mark.parametrize(
    "text", [K3, K3.replace("|>", "|> ").replace("> 6", ">6").replace("<|close", " <|close")]
)
def test_spaces_beside_special_tokens_do_not_matter(text):
    assert calls_of(read_text(KIMI, text)) == [("f", '{"n": 6}')]


def test_a_tag_of_special_tokens_that_is_cut_off_is_a_broken_call():
    reply = read_text(KIMI, "<|open|>tools<|sep|>" + K3.replace('"1"<|sep|>', '"1"') + K3)
    assert ([str(fault) for fault in reply.faults], len(calls_of(reply))) == (["bad_header"], 1)
