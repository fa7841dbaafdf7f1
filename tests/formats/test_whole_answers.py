"""Checks of whole answers: the same for upstreams of both dialects."""

import json

import pytest

from formats import (
    DIALECTS,
    MessageEnd,
    MessageFailed,
    NoticeCode,
    StopReason,
    ToolCallEnd,
    ToolCallStart,
    build_pipeline,
)
from tests.support.wire import IDENTITY

FOREIGN = {
    "{}": "{}",
    "[]": "[]",
    '"x"': "x",
    "1": "1",
    "null": "null",
    "true": "true",
    '{"code":1301,"message":"blocked"}': "blocked",
    '{"error":{"message":"blocked","type":"x"}}': "blocked",
    '{"error":"blocked"}': "blocked",
    '{"error":["blocked"]}': "blocked",
    '{"error":{}}': "error",
    '{"error":true}': "error",
    '{"error":1}': "error",
    '{"errors":[{"message":"blocked"}]}': "blocked",
    '{"type":"error"}': "error",
    '{"type":"error","error":{"type":"overloaded_error","message":"blocked"}}': "blocked",
    '{"type":"error","message":"blocked"}': "blocked",
    '{"detail":"blocked"}': "blocked",
    '{"detail":[{"msg":"blocked"}]}': "blocked",
    '{"data":{"content":[]}}': "data",
    '{"choices":null,"content":null}': "choices",
    '{"choices":[],"content":"x"}': "choices",
    '{"choices":"x","content":1}': "choices",
}


def decoded(upstream, body):
    pipeline = build_pipeline(
        client="anthropic", upstream=upstream, format_name="standard", identity=IDENTITY
    )
    return pipeline.decode_whole(body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("body", FOREIGN)
def test_w3_json_that_is_not_an_answer_is_an_error_that_names_it(upstream, body):
    """W3: a success without content hides what the upstream said."""
    events = decoded(upstream, body.encode())
    assert isinstance(events[-1], MessageFailed), events
    assert FOREIGN[body] in events[-1].message
    assert len(events) == 1


CALL = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}


@pytest.mark.parametrize("fields", [{}, {"stop_reason": None}, {"stop_reason": ""}])
def test_w3_a_call_without_a_stop_reason_is_never_complete(fields):
    """W3: the message may have been cut, and its call must not run."""
    body = {"type": "message", "role": "assistant", "id": "m", "model": "m", **fields}
    for content in ([CALL], [{"type": "text", "text": "Hi"}, CALL], []):
        events = decoded("anthropic", body | {"content": content})
        assert isinstance(events[-1], MessageFailed)
        assert not any(isinstance(event, ToolCallStart | ToolCallEnd) for event in events)
    events = decoded("anthropic", body | {"content": [{"type": "text", "text": "Hi"}]})
    assert events[-1] == MessageEnd(StopReason.END_TURN)
    assert NoticeCode.FINISH_REASON_MISSING in {getattr(event, "code", None) for event in events}


COUNTS: list[object] = [True, False, None, -1, "x", "-1", 1e300, [], {}, "9" * 30]


@pytest.mark.parametrize("count", COUNTS, ids=str)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_t8_what_is_not_a_number_is_no_count_and_does_not_fail_the_answer(upstream, count):
    """T8: `true` counted as 1."""
    if upstream == "anthropic":
        names = (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        )
        content = [{"type": "text", "text": "Hi"}]
        body = {"content": content, "stop_reason": "end_turn", "usage": dict.fromkeys(names, count)}
    else:
        details = {"cached_tokens": count, "cache_write_tokens": count}
        usage = {"prompt_tokens": count, "completion_tokens": count}
        choice = {"message": {"content": "Hi"}, "finish_reason": "stop"}
        body = {"choices": [choice], "usage": usage | {"prompt_tokens_details": details}}
    end = decoded(upstream, body)[-1]
    assert end == MessageEnd(StopReason.END_TURN)  # every count is unknown


@pytest.mark.parametrize("count", [7, 7.0, "7"])
@pytest.mark.parametrize("upstream", DIALECTS)
def test_t8_a_number_in_any_spelling_is_a_count(upstream, count):
    """T8: some upstreams send numbers as strings."""
    if upstream == "anthropic":
        content = [{"type": "text", "text": "Hi"}]
        usage = {"output_tokens": count}
        body = {"content": content, "stop_reason": "end_turn", "usage": usage}
    else:
        choice = {"message": {"content": "Hi"}, "finish_reason": "stop"}
        body = {"choices": [choice], "usage": {"completion_tokens": count}}
    assert decoded(upstream, body)[-1].usage.output == 7
