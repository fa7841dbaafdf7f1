"""Calls written as Python: literals become JSON, nothing else is read, and strings stream."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import FORMATS, CallFault, NoticeCode, TextDelta, Tool, Toolbox
from formats.arguments import Status
from formats.events import ToolCallDelta
from formats.native.grammars.python_arguments import PythonArguments
from formats.native.rescue import CallRescue
from tests.support.native_replies import calls_of, read_text, text_of

LLAMA, LFM = FORMATS["llama"], FORMATS["lfm"]
assert LLAMA
assert LFM

WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LITERALS = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda items: st.lists(items, max_size=4) | st.dictionaries(WORDS, items, max_size=4),
    max_leaves=12,
)


def read(written, sizes=(1 << 20, 1, 3)):
    """The JSON of arguments as Python writes them, at several splits, and their end."""
    results = set()
    for size in sizes:
        arguments = PythonArguments()
        out = []
        for at in range(0, len(written), size):
            piece = written[at : at + size]
            if arguments.continues_string(piece):
                out.append(piece)
                continue
            forward, end = arguments.read(piece)
            out.append(forward)
            if arguments.status is not Status.OPEN:
                out.append(arguments.unread + piece[end:] + written[at + size :])
                break
        results.add((arguments.status, "".join(out)))
    assert len(results) == 1
    return results.pop()


@given(st.dictionaries(st.from_regex(r"[a-z_]\w{0,8}", fullmatch=True), LITERALS, max_size=4))
@settings(max_examples=40)
def test_any_literal_that_python_writes_becomes_the_same_json(arguments):
    written = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    status, read_json = read(written + ")", sizes=(1 << 20, 1, 5))
    assert status is Status.COMPLETE
    assert json.loads(read_json) == arguments


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"'it\'s'", "it's"),
        (r'"a\n\t\\\"b"', 'a\n\t\\"b'),
        (r"'\x41\u00e9\U0001f600\101\0'", "Aé😀A\0"),
        (r"'\d+ \w'", r"\d+ \w"),
        (r"r'\d+\n'", r"\d+\n"),
        (r'"\ud83d\ude00"', "😀"),
        ("'''it's\n\"x\"'''", 'it\'s\n"x"'),
        ('"""a ""b"" c"""', 'a ""b"" c'),
        ("'''''' ", ""),
        ('""', ""),
        ('"two\nlines"', "two\nlines"),
        ("'one \\\nline'", "one line"),
        ("[1, 2.5, -3, +4, 1_000, 0x1F, .5, 1., 1e3, 007,]", [1, 2.5, -3, 4, 1000, 31, 0.5, 1.0, 1000.0, 7]),
        ("[True, true, False, false, None, null]", [True, True, False, False, None, None]),
        ("{'a': {}, 1: [], True: 'x',}", {"a": {}, "1": [], "true": "x"}),
        ("12345678901234567890123", 12345678901234567890123),
    ],
)  # fmt: skip
def test_a_literal_is_read(written, value):
    for text in (f"a={written})", f" a = {written} , )"):
        status, read_json = read(text)
        assert (status, json.loads(read_json)) == (Status.COMPLETE, {"a": value})


@pytest.mark.parametrize(
    "written",
    [
        "a=b", "a=f(1)", "a=1+1", "a=(1, 2)", "a={1, 2}", "a=f'x'", "a=b'x'", "a='x' 'y'", "a=[,]",
        "a=[1 2]", "a={'b'}", "a={'b': }", "a=1,, b=2", ",", "1", "a==1", "**{'a': 1}", "a='x'y",
        "a=1e999", "a=inf", "a=nan", "a=1]", "a=[1)", "a=" + "[" * 200, r"a='\x4g'", r"a='\N{DASH}'",
        r"a='\U00110000'", "a=" + "9" * 2000, "a=_1", "a=1__0", "x" * 200 + "=1",
    ],
)  # fmt: skip
def test_anything_else_than_a_literal_is_refused(written):
    status, _ = read(written + ")")
    assert status is Status.INVALID


def calls_and_text(native, text):
    reply = read_text(native, text)
    return calls_of(reply), text_of(reply), [*reply.faults]


@pytest.mark.parametrize("text", [
    "[f(a='x'), g()]", "[ f ( a = 'x' ) , g ( ) ]", "[f(a='x'),\n g(),\n]", "[f(a='x') g()]",
    "[f(a='x'), g()", "<|python_start|>[f(a='x'), g()]<|python_end|>",
    "<|python_tag|>f.call(a='x'); g.call()", "<|python_start|>f(a='x')\ng()<|python_end|>",
])  # fmt: skip
def test_a_list_is_read_in_every_spelling(text):
    assert calls_and_text(LLAMA, text) == ([("f", '{"a": "x"}'), ("g", "{}")], "", [])


@pytest.mark.parametrize(
    "text",
    [
        "The token <|python_tag|> is", "[f(1)]", "[f(a=b)]", "[f(a==1)]", "[h()](url)", "See [h(a=1)].", "[f] (a=1)", "x[f(a=1)]",
        '{"note": "[f(a=1)]"}', "`[f(a=1)]`", "[1, 2]", "[h(", "<|python_tag|>import os",
    ],
)  # fmt: skip
def test_what_only_resembles_a_list_of_calls_stays_text(text):
    assert calls_and_text(LLAMA, text) == ([], text, [])


def test_an_undeclared_name_counts_at_the_start_only_and_with_arguments():
    assert calls_and_text(LLAMA, "[h(a=1)]") == ([("h", '{"a": 1}')], "", [])
    assert calls_and_text(LLAMA, "Go: [f(a=1)] on") == ([("f", '{"a": 1}')], "Go:  on", [])


@pytest.mark.parametrize(
    ("text", "fault", "rest"),
    [
        ("[f(a='x", CallFault.TRUNCATED, ""),
        ("[f(a=1, ", CallFault.TRUNCATED, ""),
        ("[f(", CallFault.TRUNCATED, ""),
        ("[f(a=1]\nand on", CallFault.MALFORMED, "\nand on"),
        ("[f(a=1, b\nc)]\nand on", CallFault.MALFORMED, "\nc)]\nand on"),
        ("[f(a=1, b=c)]\nand on", CallFault.MALFORMED, "\nand on"),
        ("<|python_start|>[f(1)]<|python_end|>on", CallFault.MALFORMED, "on"),
        ("<|python_start|>[f(a='x)]<|python_end|>on", CallFault.MALFORMED, "on"),
        ("<|python_start|>[f", CallFault.TRUNCATED, ""),
    ],
)
def test_a_broken_call_fails_and_is_never_completed(text, fault, rest):
    assert calls_and_text(LLAMA, text) == ([], rest, [fault])


def test_a_call_after_the_first_that_is_cut_off_fails():
    for text in ("[f(a=1), g", "[f(a=1), g(", "[f(a=1), g(a='"):
        assert calls_and_text(LLAMA, text) == ([("f", '{"a": 1}')], "", [CallFault.TRUNCATED])


@pytest.mark.parametrize(
    "inside",
    ["[f(a='x'), g()]", "f(a='x')\ng()", '[{"name": "f", "arguments": {"a": "x"}}, {"name": "g"}]'],
)
def test_lfm_writes_python_or_json_between_tokens(inside):
    text = f"Go. <|tool_call_start|>{inside}<|tool_call_end|>on"
    calls, rest, faults = calls_and_text(LFM, text)
    assert [(name, json.loads(arguments)) for name, arguments in calls] == [
        ("f", {"a": "x"}),
        ("g", {}),
    ]
    assert (rest, faults) == ("Go. on", [])


def test_prose_about_the_tokens_stays_whole_and_a_stray_end_is_removed():
    text = "Between <|tool_call_start|> and <|tool_call_end|>."
    assert calls_and_text(LFM, text) == ([], text, [])
    reply = read_text(LFM, "a<|tool_call_end|>b")
    assert text_of(reply) == "ab"
    assert [notice.code for notice in reply.notices] == [NoticeCode.MARKUP_REMOVED]


@pytest.mark.parametrize("opening", ["[f(a='", '<|python_start|>[f(a="""', "[f(o=[{'k': 'x"])
def test_a_long_string_streams(opening):
    rescue = CallRescue(LLAMA, Toolbox([Tool("f", None, b"{}")]))
    rescue.feed([TextDelta(opening)])
    for piece in ("a" * 40, "line\n", r"b\nc", '"' + "d" * 40):
        sent = rescue.feed([TextDelta(piece)])
        written = "".join(event.json for event in sent if isinstance(event, ToolCallDelta))
        assert len(written) >= len(piece)


def test_tokens_without_a_call_between_them_are_removed():
    for native, begin, end in (
        (LLAMA, "<|python_start|>", "<|python_end|>"),
        (LFM, "<|tool_call_start|>", "<|tool_call_end|>"),
    ):
        assert calls_and_text(native, f"a{begin} {end}b") == ([], "ab", [])
