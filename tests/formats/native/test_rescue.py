"""Rescue of native calls together with channels, structured calls and declared tools."""

import json

import pytest

from formats import FailureKind, NoticeCode, StopReason, Tool, Toolbox, collect, merge_deltas
from formats.conversation import Reasoning, Text, ToolCall
from formats.native.grammars.parameter_values import coerce
from tests.support.wire import byte_cuts, calls, decode, entry, reply_from, stream

KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    '{"x": 1}<|tool_call_end|><|tool_calls_section_end|>'
)
HERMES = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
RESCUED = ToolCall("call_tok_1", "f", b'{"x": 1}')
TOOLS = Toolbox([Tool("Bash", None, b'{"type":"object","properties":{"x":{"type":"integer"}}}')])


def codes(reply):
    return [notice.code for notice in reply.notices]


def test_seed_002_single_token_chunks_in_the_reasoning_become_calls():
    pieces = [" <|tool_calls_section_begin|>", " <|tool_call_begin|>", " functions", ".task", ":",
              "45", " <|tool_call_argument_begin|>", ' {"', "description", '":', ' "', "Explore",
              ' core"', "}", " <|tool_call_end|>", " <|tool_call_begin|>", " functions.task:46",
              " <|tool_call_argument_begin|>", " {}", " <|tool_call_end|>",
              " <|tool_calls_section_end|>"]  # fmt: skip
    body = stream(*({"reasoning": piece, "reasoning_content": piece} for piece in pieces))
    reply = reply_from(body, format_name="kimi")
    assert [(p.name, json.loads(p.arguments)) for p in reply.parts] == [
        ("task", {"description": "Explore core"}), ("task", {}),
    ]  # fmt: skip
    assert reply.stop_reason is StopReason.TOOL_USE


def test_text_around_a_section_keeps_its_channel():
    body = stream({"reasoning": "Hm. " + KIMI + " Then."}, {"content": "Answer."})
    reply = reply_from(body, format_name="kimi")
    assert reply.parts == [Reasoning("Hm. "), RESCUED, Reasoning(" Then."), Text("Answer.")]


def test_a_section_may_continue_in_the_other_channel():
    body = stream({"reasoning": KIMI[:50]}, {"content": KIMI[50:]})
    assert reply_from(body, format_name="kimi").parts == [RESCUED]


def test_arguments_stream_while_they_arrive():
    head = KIMI.partition("1}")[0]
    events = decode(stream({"content": head}, finish=None, done=False), format_name="kimi")
    assert [type(event).__name__ for event in events[1:-1]] == [
        "Notice", "ToolCallStart", "ToolCallDelta",
    ]  # fmt: skip


@pytest.mark.parametrize(("native", "format_name"), [(KIMI, "kimi"), (HERMES, "qwen")])
def test_p1_structured_calls_win_over_a_copy_in_the_text(native, format_name):
    structured = calls(entry(0, "s1", "f", '{"x":1}'))
    for deltas in (
        [{"reasoning": native}, structured] if format_name == "qwen" else [],
        [structured, {"content": native}],
        [{"content": native}, structured],
    ):
        if deltas:
            reply = reply_from(stream(*deltas), format_name=format_name)
            assert [type(part) for part in reply.parts] == [ToolCall]
            assert NoticeCode.SHADOW_CALL_REMOVED in codes(reply)


def test_p1_a_copy_is_recognised_by_meaning_not_by_spelling():
    tokens = KIMI.replace('{"x": 1}', '{"x": "Tromsø\\/🚢"}').replace("functions.f", "functions.F")
    structured = calls(entry(0, "s1", "f", '{"x":"Troms\\u00f8/\\ud83d\\udea2"}'))
    tools = Toolbox([Tool("f", None, b"{}")])
    for parts in byte_cuts(stream({"content": tokens}, structured), 2):
        reply = collect(decode(parts, format_name="kimi", tools=tools))
        assert [json.loads(part.arguments) for part in reply.parts] == [{"x": "Tromsø/🚢"}]


@pytest.mark.parametrize(("native", "format_name"), [(KIMI, "kimi"), (HERMES, "qwen")])
def test_a_call_repeated_in_reasoning_and_answer_is_one_call(native, format_name):
    twice = stream(
        *({"reasoning": char} for char in "Hm. " + native),
        *({"content": char} for char in "So: " + native),
    )
    for body in (stream({"reasoning": "Hm. " + native}, {"content": "So: " + native}), twice):
        reply = reply_from(body, format_name=format_name)
        assert [p for p in reply.parts if isinstance(p, ToolCall)] == [RESCUED]
        assert [p for p in reply.parts if not isinstance(p, ToolCall)] == [
            Reasoning("Hm. "), Text("So: "),
        ]  # fmt: skip
        assert NoticeCode.SHADOW_CALL_REMOVED in codes(reply)


def test_a_draft_in_the_reasoning_is_dropped_if_the_answer_has_a_call():
    other = HERMES.replace("1", "2")
    reply = reply_from(stream({"reasoning": HERMES}, {"content": other}), format_name="qwen")
    assert [json.loads(part.arguments) for part in reply.parts] == [{"x": 2}]


def test_equal_calls_of_one_answer_are_all_kept():
    body = stream({"reasoning": KIMI.replace("1", "3")}, {"content": KIMI + KIMI})
    reply = reply_from(body, format_name="kimi")
    assert [json.loads(part.arguments)["x"] for part in reply.parts] == [3, 1, 1]


def test_a_structured_call_that_differs_from_a_rescued_one_is_kept():
    body = stream({"content": KIMI}, calls(entry(0, "s1", "f", '{"x":2}')))
    reply = reply_from(body, format_name="kimi")
    assert [json.loads(part.arguments) for part in reply.parts] == [{"x": 1}, {"x": 2}]


def test_tag_calls_in_the_reasoning_are_deferred_to_the_end():
    body = stream({"reasoning": "Maybe " + HERMES + " or not."}, {"content": "Ok."})
    reply = reply_from(body, format_name="qwen")
    assert reply.parts == [Reasoning("Maybe  or not."), Text("Ok."), RESCUED]


def test_a_broken_draft_in_the_reasoning_does_not_fail_the_answer():
    body = stream({"reasoning": 'Maybe <tool_call>{"name": "f", "arg'}, {"content": "Ok."})
    for parts in byte_cuts(body, 2):
        reply = collect(decode(parts, format_name="qwen"))
        assert reply.parts == [Reasoning("Maybe "), Text("Ok.")]
        assert reply.failure is None


def test_a_marker_cannot_span_both_channels():
    body = stream({"reasoning": "a <"}, {"content": "|tool_call_begin|> b"})
    assert reply_from(body, format_name="kimi").parts == [
        Reasoning("a <"), Text("|tool_call_begin|> b"),
    ]  # fmt: skip


def test_strict_mode_fails_a_section_without_an_end_token():
    open_section = KIMI.removesuffix("<|tool_calls_section_end|>")
    assert reply_from(stream({"content": open_section}), format_name="kimi").failure is None
    strict = reply_from(stream({"content": open_section}), format_name="kimi", strict=True)
    assert strict.failure
    assert strict.failure.kind is FailureKind.TRANSFORMATION
    assert reply_from(stream({"content": KIMI}), format_name="kimi", strict=True).failure is None


@pytest.mark.parametrize("name", ["functions.Bash", "bash", "BASH", "Bash<|channel|>commentary",
                                  "Bash</arg_value>"])  # fmt: skip
def test_p1_names_are_cleaned_and_matched_to_declared_tools(name):
    reply = reply_from(stream(calls(entry(0, "a", name, "{}"))), tools=TOOLS)
    assert [part.name for part in reply.parts] == ["Bash"]
    assert NoticeCode.NAME_RESOLVED in codes(reply)


def test_undeclared_names_are_forwarded():
    reply = reply_from(stream(calls(entry(0, "a", "Other", "{}"))), tools=TOOLS)
    assert [part.name for part in reply.parts] == ["Other"]


def test_aliases_are_resolved():
    tools = Toolbox([Tool("long_name", None, b"{}")], aliases={"short": "long_name"})
    assert (
        reply_from(stream(calls(entry(0, "a", "short", "{}"))), tools=tools).parts[0].name
        == "long_name"
    )


def test_plain_text_is_held_no_longer_than_a_marker():
    events = decode(
        stream({"content": "a < b, a <| b, a <tool_cal b. Then"}, finish=None, done=False),
        format_name="qwen",
    )
    assert merge_deltas(events)[1].text == "a < b, a <| b, a <tool_cal b. Then"


DSML_SPELLINGS = ["<｜｜DSML｜｜{}>", "<‖DSML‖{}>", "<|DSML|{}>", "< | DSML | {}>"]


@pytest.mark.parametrize("spelling", DSML_SPELLINGS)
@pytest.mark.parametrize("block", ["function_calls", "tool_calls", "tool_use"])
def test_unusual_spellings_of_dsml_are_read(spelling, block):
    def tag(name):
        return spelling.format(name)

    def closing(name):
        return tag(name).replace("<", "</", 1)

    text = "\n".join([
        tag(block), tag('invoke name="f"'),
        tag('parameter name="x" string="false"') + "1" + closing("parameter"),
        closing("invoke"), closing(block),
    ])  # fmt: skip
    for parts in byte_cuts(stream(*({"content": char} for char in text)), 0):
        reply = collect(decode(parts, format_name="deepseek"))
        assert [(p.name, json.loads(p.arguments)) for p in reply.parts] == [("f", {"x": 1})]


COERCIONS = {
    ("null", "integer null"): "null",
    ("NULL", "string null"): "null",
    ("null", "string"): '"null"',
    ("NULL", "integer"): "null",  # T5: no other value of this type is meant
    ("null", "boolean object"): "null",
    (" +7 ", "integer"): "7",
    ("7", "number"): "7",
    ("7.5", "number"): "7.5",
    ("1e400", "number"): "1e400",
    ("NaN", "number"): '"NaN"',
    ("7.5", "integer"): '"7.5"',
    ("TRUE", "boolean"): "true",
    ("0", "boolean"): "false",
    ("1", "boolean integer"): "1",
    ("maybe", "boolean"): '"maybe"',
    ('{"a": 1}', "object"): '{"a": 1}',
    ("{'a': True}", "object"): '{"a": true}',
    ("(1, 2)", "array"): '"(1, 2)"',
    ("[1, 2]", "array string"): "[1, 2]",
    ("words", "array string"): '"words"',
    (" kept ", "string"): '" kept "',
    ("__import__('os')", "object"): "\"__import__('os')\"",
}


@pytest.mark.parametrize(("case", "expected"), COERCIONS.items())
def test_values_get_the_types_of_the_schema(case, expected):
    value, types = case
    assert coerce(value, frozenset(types.split())) == expected


SCHEMAS = {
    '{"type": "integer"}': {"integer"},
    '{"type": ["integer", "null"]}': {"integer", "null"},
    '{"enum": [1, "a", null, true, 1.5]}': {"integer", "string", "null", "boolean", "number"},
    '{"anyOf": [{"type": "string"}, {"oneOf": [{"type": "null"}]}]}': {"string", "null"},
    "{}": {"string"},
    "true": {"string"},
    '{"type": 5, "anyOf": 5, "enum": 5}': {"string"},
    # T4: names of other languages.
    '{"type": "float"}': {"number"},
    '{"type": ["int", "None"]}': {"integer", "null"},
    '{"anyOf": [{"type": "bool"}, {"type": "dict"}, {"type": "list"}]}': {
        "boolean", "object", "array",
    },
    '{"type": "STRING"}': {"string"},
    '{"type": "any"}': {"string", "boolean", "integer", "number", "array", "object", "null"},
}  # fmt: skip


@pytest.mark.parametrize(("schema", "types"), SCHEMAS.items())
def test_types_are_the_union_of_all_branches_of_the_schema(schema, types):
    tool = Tool("f", None, f'{{"properties": {{"x": {schema}}}}}'.encode())
    assert Toolbox([tool]).types("f", "x") == types
    assert Toolbox([tool]).types("g", "x") == {"string"}
