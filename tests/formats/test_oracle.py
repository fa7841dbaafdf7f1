"""Law 8: the official SDKs rebuild the original message from the encoded bytes."""

import json
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given, settings

from formats import DIALECTS, Event, MessageFailed, StopReason, collect
from formats.conversation import Reasoning, RedactedReasoning, Text, ToolCall
from tests.support.official_sdks import (
    QUESTION,
    anthropic_client,
    openai_client,
    streamed_by_anthropic,
)
from tests.support.strategies import messages
from tests.support.wire import OPTIONS, relay, stream


def check_anthropic(message: Any, events: list[Event]) -> None:
    reply = collect(events)
    assert message.id == reply.id
    assert message.stop_reason == reply.stop_reason
    assert message.usage.output_tokens == (reply.usage.output or 0)
    assert len(message.content) == len(reply.parts)
    for block, part in zip(message.content, reply.parts, strict=True):
        match part:
            case Text(text=text):
                assert block.text == text
            case Reasoning(text=text, signature=signature):
                assert (block.thinking, block.signature) == (text, signature or "")
            case RedactedReasoning(data=data):
                assert block.data == data
            case ToolCall():
                assert (block.id, block.name) == (part.id, part.name)
                assert block.input == json.loads(part.arguments)


@given(events=messages())
@settings(max_examples=15)
def test_anthropic_rebuilds_a_stream(events):
    body = DIALECTS["anthropic"].encoder(OPTIONS).feed(events)
    if isinstance(events[-1], MessageFailed):
        with pytest.raises(anthropic.APIStatusError):
            streamed_by_anthropic(body)
    else:
        check_anthropic(streamed_by_anthropic(body), events)


@given(events=messages())
@settings(max_examples=8)
def test_anthropic_reads_a_whole_message(events):
    if isinstance(events[-1], MessageFailed):
        return
    body = DIALECTS["anthropic"].encode_reply(collect(events), OPTIONS)
    client = anthropic_client(body, {"content-type": "application/json"})
    check_anthropic(client.messages.create(model="m", max_tokens=9, messages=QUESTION), events)


def check_openai(completion: Any, events: list[Event]) -> None:
    reply = collect(events)
    message = completion.choices[0].message
    assert (message.content or "") == "".join(p.text for p in reply.parts if isinstance(p, Text))
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    assert len(message.tool_calls or []) == len(calls)
    for tool_call, part in zip(message.tool_calls or [], calls, strict=True):
        assert (tool_call.id, tool_call.type, tool_call.function.name) == (
            part.id,
            "function",
            part.name,
        )
        assert json.loads(tool_call.function.arguments) == json.loads(part.arguments)
    assert completion.choices[0].finish_reason == (
        "tool_calls" if reply.stop_reason is StopReason.TOOL_USE else "stop"
    )
    assert completion.usage.completion_tokens == reply.usage.output


@given(events=messages())
@settings(max_examples=15)
def test_openai_rebuilds_a_stream(events):
    end = events[-1]
    body = DIALECTS["openai"].encoder(OPTIONS).feed(events)
    client = openai_client(body)
    if isinstance(end, MessageFailed):
        with pytest.raises(openai.APIError):
            list(client.chat.completions.create(model="m", messages=QUESTION, stream=True))
        return
    if end.stop_reason in (StopReason.MAX_TOKENS, StopReason.REFUSAL):
        return  # the SDK raises for these, as it does for OpenAI's own
    with client.chat.completions.stream(model="m", messages=QUESTION) as answer:
        check_openai(answer.get_final_completion(), events)


@given(events=messages())
@settings(max_examples=8)
def test_openai_reads_a_whole_completion(events):
    end = events[-1]
    if isinstance(end, MessageFailed) or end.stop_reason in (
        StopReason.MAX_TOKENS,
        StopReason.REFUSAL,
    ):
        return
    body = DIALECTS["openai"].encode_reply(collect(events), OPTIONS)
    client = openai_client(body, {"content-type": "application/json"})
    check_openai(client.chat.completions.create(model="m", messages=QUESTION), events)


KIMI = (
    "Looking. <|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0"
    '<|tool_call_argument_begin|>{"harbor": "Moss"}<|tool_call_end|><|tool_calls_section_end|>'
)


def test_both_rebuild_a_rescued_call():
    upstream = stream(*({"reasoning_content": char} for char in KIMI))
    message = streamed_by_anthropic(relay(upstream, client="anthropic", format_name="kimi"))
    assert [block.type for block in message.content] == ["thinking", "tool_use"]
    assert message.content[1].input == {"harbor": "Moss"}
    assert message.stop_reason == "tool_use"
    client = openai_client(relay(upstream, client="openai", format_name="kimi"))
    with client.chat.completions.stream(model="m", messages=QUESTION) as answer:
        tool_call = answer.get_final_completion().choices[0].message.tool_calls
    assert [call.function.name for call in tool_call] == ["get_tide"]
