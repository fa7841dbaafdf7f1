"""Kimi's special tokens, translated for an OpenAI client: twelve cases of the specification."""

import json
import re
from typing import Any

import pytest

from formats import ReplyOptions
from tests.support.official_sdks import QUESTION, openai_client
from tests.support.openai_reader import Answer, payloads, read
from tests.support.wire import chunk, cuts, data, event_reads, relay, stream, toolbox

BASH = toolbox(
    [
        {"function": {"name": "bash", "parameters": {
            "type": "object", "properties": {"command": {"type": "string"}}}}},
        {"function": {"name": "read", "parameters": {
            "type": "object", "properties": {"path": {"type": "string"}}}}},
    ]
)  # fmt: skip
CHANNELS = ["content", "reasoning", "reasoning_content"]


def call(header: str, arguments: str) -> str:
    return f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def section(*calls: str) -> str:
    return f"<|tool_calls_section_begin|>{''.join(calls)}<|tool_calls_section_end|>"


def rescue(*deltas: dict[str, Any], **options: Any) -> bytes:
    reads = event_reads(stream(*deltas))
    return relay(reads, client="openai", format_name="kimi", toolbox=BASH, **options)


def rescued_answer(*deltas: dict[str, Any]) -> Answer:
    return read(rescue(*deltas), theirs={"reasoning"})


def text_in(answer: Answer, channel: str) -> str:
    return answer.text if channel == "content" else answer.reasoning


LS = call("functions.bash:15", '{"command":"ls"}')


@pytest.mark.parametrize("channel", CHANNELS)
def test_text_without_tokens_passes_unchanged(channel):
    deltas = [{channel: "Good "}, {channel: "morning <|"}]
    assert rescue(*deltas) == stream(*deltas)
    answer = rescued_answer(*deltas)
    assert text_in(answer, channel) == "Good morning <|"
    assert (answer.calls, answer.finish) == ([], "stop")


def test_done_comes_once_and_last():
    assert rescue({"content": "Hi"}).count(b"[DONE]") == 1
    assert rescue({"content": "Hi"}).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_call_in_one_chunk(channel):
    answer = rescued_answer({channel: section(LS)})
    [tool_call] = answer.calls
    assert (tool_call["type"], tool_call["name"], tool_call["text"]) == (
        "function",
        "bash",
        '{"command":"ls"}',
    )
    assert (text_in(answer, channel), answer.finish) == ("", "tool_calls")


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_call_may_be_split_across_chunks_anywhere(channel):
    for pieces in cuts(section(LS)):
        answer = rescued_answer(*({channel: piece} for piece in pieces))
        assert [tool_call["text"] for tool_call in answer.calls] == ['{"command":"ls"}']
        assert text_in(answer, channel) == ""


def test_several_calls_are_counted_from_zero():
    second = call("functions.read:16", '{"path":"a.py"}')
    answer = rescued_answer({"reasoning": section(LS, second)})
    assert [tool_call["name"] for tool_call in answer.calls] == ["bash", "read"]
    assert len({tool_call["id"] for tool_call in answer.calls}) == 2


@pytest.mark.parametrize("channel", CHANNELS)
def test_text_before_a_section_keeps_its_channel(channel):
    answer = rescued_answer({channel: f"Let me look. {section(LS)}"})
    assert text_in(answer, channel).strip() == "Let me look."
    assert len(answer.calls) == 1


@pytest.mark.parametrize("channel", CHANNELS)
def test_text_after_a_section_keeps_its_channel(channel):
    answer = rescued_answer({channel: f"{section(LS)} That is all."})
    assert text_in(answer, channel).strip() == "That is all."
    assert len(answer.calls) == 1


@pytest.mark.parametrize("arguments", ["", "{}", " {} "])
def test_empty_arguments_are_an_empty_object(arguments):
    [tool_call] = rescued_answer({"reasoning": section(call("functions.bash:0", arguments))}).calls
    assert json.loads(tool_call["text"]) == {}


def test_a_header_with_an_id_takes_the_name_from_the_arguments():
    [tool_call] = rescued_answer(
        {"reasoning": section(call("call_abc123", '{"command":"ls"}'))}
    ).calls
    assert tool_call["name"] == "bash"
    assert re.fullmatch(r"call_[A-Za-z0-9_-]+", tool_call["id"])


def test_ids_have_the_form_of_openai_ids():
    [tool_call] = rescued_answer({"content": section(LS)}).calls
    assert re.fullmatch(r"call_[A-Za-z0-9_-]+", tool_call["id"])


@pytest.mark.parametrize("asked", [True, False])
def test_a_chunk_with_only_usage_is_forwarded_if_requested(asked):
    usage = data({"id": "chatcmpl-1", "model": "m", "choices": [],
                  "usage": {"prompt_tokens": 7, "completion_tokens": 3}})  # fmt: skip
    body = chunk({"content": section(LS)}) + chunk({}, "stop") + usage + b"data: [DONE]\n\n"
    options = ReplyOptions(include_usage=asked)
    answer = read(relay(body, client="openai", format_name="kimi", options=options))
    counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert answer.usage == (counts if asked else None)


def test_a_chunk_that_is_not_json_fails_the_answer():
    body = chunk({"content": "Hi"}) + b"data: {nope\n\n" + chunk({}, "stop") + b"data: [DONE]\n\n"
    out = relay(body, client="openai", format_name="kimi")
    assert b"Hi" in out
    assert b"[DONE]" not in out
    last = json.loads(out.strip().split(b"\n\n")[-1].removeprefix(b"data: "))
    assert last.keys() == {"error"}
    assert last["error"]["type"] == "server_error"


@pytest.mark.parametrize("cut", range(1, len("<|tool_calls_section_begin|>")))
def test_a_token_split_at_the_edge_of_a_chunk(cut):
    text = f"So: {section(LS)}"
    answer = rescued_answer({"content": text[: 4 + cut]}, {"content": text[4 + cut :]})
    assert (answer.text.strip(), len(answer.calls)) == ("So:", 1)


def test_id_model_and_created_come_from_the_upstream_in_every_chunk():
    head = {"id": "gen-1", "model": "moonshotai/kimi-k2.5", "created": 1772239251}
    body = chunk({"content": section(LS)}, **head) + chunk({}, "stop", **head) + b"data: [DONE]\n\n"
    out = relay(body, client="openai", format_name="kimi", options=ReplyOptions(created=5))
    for payload in payloads(out):
        assert {name: payload[name] for name in head} == head


def test_the_official_package_rebuilds_text_and_calls():
    client = openai_client(rescue({"content": f"Let me look. {section(LS, LS)}"}))
    with client.chat.completions.stream(model="m", messages=QUESTION) as answer:
        choice = answer.get_final_completion().choices[0]
    assert choice.message.content.strip() == "Let me look."
    assert [tool_call.function.arguments for tool_call in choice.message.tool_calls] == [
        '{"command":"ls"}', '{"command":"ls"}',
    ]  # fmt: skip
    assert choice.finish_reason == "tool_calls"
