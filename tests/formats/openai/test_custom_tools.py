"""Custom tools: text instead of arguments, for models that know functions only."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats import (
    DIALECTS,
    FORMATS,
    MessageEnd,
    MessageStart,
    Pipeline,
    StopReason,
    Target,
    Tool,
    Toolbox,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    build_pipeline,
    collect,
)
from formats.openai.custom_tools import InputReader, wrap_input
from tests.support.official_sdks import QUESTION, openai_client
from tests.support.openai_reader import DONE, read
from tests.support.strategies import pieces
from tests.support.wire import (
    HEAD,
    IDENTITY,
    OPTIONS,
    anthropic_stream,
    chunk,
    decode,
    relay,
    stream,
)

PATCH = '*** Begin Patch\n*** Update File: tide.py\n-a = "1"\n+a = "潮 🌊\\n"\n*** End Patch'
GRAMMAR = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF'
NESTED = {
    "type": "custom",
    "custom": {
        "name": "ApplyPatch",
        "description": "Edits files.",
        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": GRAMMAR}},
    },
}
FLAT = {
    "type": "custom",
    "name": "ApplyPatch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}


def parse(**fields: Any) -> Any:
    request = {"model": "m", "messages": QUESTION, **fields}
    return DIALECTS["openai"].parse(json.dumps(request).encode())


TARGET = Target()
TOOLBOX = Toolbox(parse(tools=[NESTED]).tools)


@pytest.mark.parametrize("tool", [NESTED, FLAT], ids=["nested", "flat"])
@pytest.mark.parametrize("upstream", DIALECTS)
def test_a_model_is_offered_a_function_with_one_string_and_told_the_grammar(tool, upstream):
    conversation = parse(tools=[tool])
    [offered] = conversation.tools
    assert offered.is_custom
    assert offered.description.startswith("Edits files.\n\n")
    assert "lark" in offered.description
    assert GRAMMAR in offered.description
    schema = json.loads(offered.schema)
    assert (schema["required"], schema["properties"]["input"]["type"]) == (["input"], "string")
    [made] = json.loads(DIALECTS[upstream].render(conversation, TARGET).body)["tools"]
    assert made.get("type", "function") == "function"


def test_a_custom_tool_without_a_format_takes_any_text():
    for tool in ({"type": "custom", "custom": {"name": "Say"}}, {"type": "custom", "name": "Say"}):
        [offered] = parse(tools=[tool]).tools
        assert (offered.name, offered.description, offered.is_custom) == ("Say", None, True)


def structured(text: str, places: list[int]) -> bytes:
    fragments = pieces(text, places)
    head = {"index": 0, "id": "call_1", "function": {"name": "ApplyPatch", "arguments": ""}}
    deltas = [{"index": 0, "function": {"arguments": fragment}} for fragment in fragments]
    return stream(*({"tool_calls": [entry]} for entry in (head, *deltas)), finish="tool_calls")


@given(
    text=st.text(max_size=60) | st.just(PATCH),
    ascii_only=st.booleans(),
    places=st.lists(st.integers(0, 999), max_size=12),
)
@settings(max_examples=30)
def test_the_input_is_what_the_model_wrote_however_it_was_cut(text, ascii_only, places):
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    answer = read(relay(structured(arguments, places), client="openai", toolbox=TOOLBOX))
    assert answer.calls == [{"id": "call_1", "type": "custom", "name": "ApplyPatch", "text": text}]
    assert answer.finish == "tool_calls"


FUNCTION = {"name": "ApplyPatch", "arguments": json.dumps({"input": PATCH})}
CALL = {"id": "call_1", "type": "function", "function": FUNCTION}


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_stream_is_the_upstreams_own_up_to_the_call(format_name):
    before = chunk({"role": "assistant", "content": "Patching."})
    call = chunk({"tool_calls": [{"index": 0, **CALL}]})
    body = before + call + chunk({}, "tool_calls") + DONE
    for parts in ([body], [before, call, body[len(before + call) :]]):
        made = pipeline(format_name)
        out = b"".join([made.feed(part) for part in parts]) + made.close()
        assert out.startswith(before)
        assert not made.is_passthrough
        answer = read(out)
        assert (answer.text, answer.finish) == ("Patching.", "tool_calls")
        assert [(call["type"], call["text"]) for call in answer.calls] == [("custom", PATCH)]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", ["ApplyPatch", "Read"])
def test_a_whole_answer_is_the_upstreams_own_unless_it_calls_a_custom_tool(format_name, name):
    call = {**CALL, "function": {**FUNCTION, "name": name}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = json.dumps({**HEAD, "object": "chat.completion", "choices": [choice]}).encode()
    made = pipeline(format_name)
    events = made.decode_whole(body)
    sent = made.encode(events)
    assert made.is_passthrough == (sent == body) == (name == "Read")
    [found] = collect(events).parts
    assert found.is_custom == (name == "ApplyPatch")


def pipeline(format_name: str) -> Pipeline:
    return build_pipeline(
        client="openai",
        upstream="openai",
        format_name=format_name,
        identity=IDENTITY,
        toolbox=TOOLBOX,
    )


def test_the_input_flows_while_it_is_written():
    reader = InputReader()
    assert reader.feed('{"inp') == ""
    assert reader.feed('ut": "*** Begin') == "*** Begin"
    assert reader.feed(" Patch\\") == " Patch"
    assert reader.feed('n+"') == "\n+"
    assert reader.feed("}") == ""


@pytest.mark.parametrize("arguments", ['{"patch": "x"}', '{"input": 5}', "{}", '{ "in put": "x"}'])
def test_arguments_that_are_not_the_stand_ins_reach_the_tool_as_they_stand(arguments):
    for places in ([], [1, 3, 5, 9]):
        answer = read(relay(structured(arguments, places), client="openai", toolbox=TOOLBOX))
        assert answer.calls[0]["text"] == arguments


def test_white_space_without_end_is_not_held():
    reader = InputReader()
    assert "".join(reader.feed(text) for text in ["{", " " * 400, '"input": "x"}'])


def test_a_call_without_arguments_has_no_input():
    answer = read(relay(structured("", []), client="openai", toolbox=TOOLBOX))
    assert (answer.calls[0]["type"], answer.calls[0]["text"]) == ("custom", "")


def test_a_rescued_call_of_a_custom_tool_is_one_too():
    text = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.ApplyPatch:0"
        f"<|tool_call_argument_begin|>{json.dumps({'input': PATCH})}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    )
    body = stream(*({"content": char} for char in text))
    answer = read(relay(body, client="openai", format_name="kimi", toolbox=TOOLBOX))
    assert (answer.calls[0]["type"], answer.calls[0]["text"]) == ("custom", PATCH)


def test_other_tools_of_the_same_answer_stay_functions():
    start, end = MessageStart("msg_1", "m"), MessageEnd(StopReason.TOOL_USE)
    calls = [
        [ToolCallStart(name, name), ToolCallDelta(json.dumps({"input": "x"})), ToolCallEnd()]
        for name in ("Read", "ApplyPatch", "Write")
    ]
    body = anthropic_stream([start, *(event for call in calls for event in call), end])
    answer = read(relay(body, client="openai", upstream="anthropic", toolbox=TOOLBOX))
    assert [call["type"] for call in answer.calls] == ["function", "custom", "function"]


def test_the_official_package_reads_a_whole_completion_and_rebuilds_a_stream():
    body = structured(json.dumps({"input": PATCH}), [5, 20, 40])
    reply = collect(decode(body, tools=TOOLBOX))
    whole = DIALECTS["openai"].encode_reply(reply, OPTIONS)
    client = openai_client(whole, {"content-type": "application/json"})
    [call] = (
        client.chat.completions.create(model="m", messages=QUESTION).choices[0].message.tool_calls
    )
    assert (call.type, call.custom.name, call.custom.input) == ("custom", "ApplyPatch", PATCH)
    # Its helper's last step trips over custom calls, OpenAI's own included; before that it has them.
    client = openai_client(relay(body, client="openai", toolbox=TOOLBOX))
    with client.chat.completions.stream(model="m", messages=QUESTION) as answer:
        for _ in answer:
            snapshot = answer.current_completion_snapshot
    [call] = snapshot.choices[0].message.tool_calls
    assert (call.type, call.custom) == ("custom", {"name": "ApplyPatch", "input": PATCH})


HISTORIES = {
    "as OpenAI defines it": {"type": "custom", "custom": {"name": "ApplyPatch", "input": PATCH}},
    "as a function with raw text": {
        "type": "function", "function": {"name": "ApplyPatch", "arguments": PATCH},
    },
    "as the stand-in itself": {
        "type": "function",
        "function": {"name": "ApplyPatch", "arguments": wrap_input(PATCH).decode()},
    },
}  # fmt: skip


@pytest.mark.parametrize("call", HISTORIES.values(), ids=HISTORIES)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_earlier_calls_go_to_the_model_as_calls_of_the_function(call, upstream):
    history = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", **call}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    made = json.loads(DIALECTS[upstream].render(parse(messages=history, tools=[FLAT]), TARGET).body)
    turn = made["messages"][1]
    if upstream == "anthropic":
        assert turn["content"][0]["input"] == {"input": PATCH}
    else:
        [again] = turn["tool_calls"]
        assert json.loads(again["function"]["arguments"]) == {"input": PATCH}


def test_a_tool_that_is_not_custom_never_is():
    assert not Toolbox([Tool("f", None, b"{}")]).is_custom("f")
