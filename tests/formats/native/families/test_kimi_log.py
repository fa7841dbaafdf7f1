"""A recorded stream that broke a parser: each token of two calls is a chunk of the reasoning."""

import json

import pytest

from formats import build_pipeline, merge_deltas
from tests.support.native_calls import KIMI_LOG
from tests.support.official_sdks import QUESTION, openai_client
from tests.support.openai_reader import OPENROUTER_FIELDS, Answer, read
from tests.support.wire import IDENTITY, byte_cuts, decode, relay

TASKS = [
    {
        "description": "Explore core C headers",
        "prompt": "Recursively explore and analyze all core C standard library headers in "
        "/usr/include and report what each declares.",
        "subagent_type": "explore",
    },
    {
        "description": "Explore network headers",
        "prompt": "Explore the headers below /usr/include/net, and say "
        '"none" where there are none.',
        "subagent_type": "explore",
    },
]


@pytest.fixture(scope="module")
def answer() -> Answer:
    return read(relay(KIMI_LOG, client="openai", format_name="kimi"), theirs=OPENROUTER_FIELDS)


def test_every_token_of_the_log_is_alone_in_its_chunk():
    pieces = [
        json.loads(line[6:])["choices"][0]["delta"].get("reasoning")
        for line in KIMI_LOG.decode().splitlines()
        if line.startswith("data: {")
    ]
    for token in (" <|tool_calls_section_begin|>", " <|tool_call_argument_begin|>", " functions"):
        assert token in pieces


def test_both_calls_are_structured_with_their_arguments(answer):
    assert [call["name"] for call in answer.calls] == ["task", "task"]
    assert [json.loads(call["text"]) for call in answer.calls] == TASKS
    assert len({call["id"] for call in answer.calls}) == 2
    assert answer.finish == "tool_calls"


def test_reasoning_before_the_calls_stays_reasoning_without_markers(answer):
    assert answer.reasoning.strip() == "The user wants me to explore the headers."
    assert answer.text == ""


def test_id_model_and_created_come_from_the_upstream_and_usage_comes_last(answer):
    assert answer.head == (
        "gen-1772239251-Q0vJ3mGkzqkYt0y5Yw2N",
        "moonshotai/kimi-k2.5",
        1772239251,
    )
    assert answer.usage == {
        "prompt_tokens": 21873,
        "completion_tokens": 178,
        "total_tokens": 22051,
        "prompt_tokens_details": {"cached_tokens": 21504},
    }


def test_the_arguments_stream_while_the_model_writes_them():
    before, _, _ = KIMI_LOG.partition(b" network")
    pipeline = build_pipeline(
        client="openai", upstream="openai", format_name="kimi", identity=IDENTITY
    )
    sent = pipeline.feed(before[: before.rindex(b"data: ")])
    assert sent.count(b'"id":"call_') == 2
    assert sent.rstrip().endswith(b'"arguments":"Explore"}}]},"finish_reason":null}]}')


def test_any_split_of_the_bytes_gives_the_same_answer():
    expected = merge_deltas(decode(KIMI_LOG, format_name="kimi"))
    for parts in byte_cuts(KIMI_LOG, 2):
        assert merge_deltas(decode(parts, format_name="kimi")) == expected


def test_the_official_package_rebuilds_the_calls():
    client = openai_client(relay(KIMI_LOG, client="openai", format_name="kimi"))
    with client.chat.completions.stream(model="m", messages=QUESTION) as stream:
        calls = stream.get_final_completion().choices[0].message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == TASKS
