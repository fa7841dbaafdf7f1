"""Requirements of real clients on the encoded bytes: Claude Code, and the SDKs of both vendors."""

import json

import pytest

from formats import (
    DIALECTS,
    STATUS,
    FailureKind,
    Identity,
    LimitExceeded,
    MessageEnd,
    MessageFailed,
    MessageStart,
    ReplyOptions,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    UpstreamError,
    Usage,
    build_pipeline,
    collect,
)
from formats.events import CallFault
from tests.support.client_views import error_type, payloads, view
from tests.support.wire import IDENTITY, OPTIONS, calls, decode, entry, relay, stream

START = MessageStart("msg_1", "m")
END = MessageEnd(StopReason.TOOL_USE, usage=Usage(input=9, output=3, cache_read=4))


def encoded(*events, client="anthropic", options=OPTIONS):
    return DIALECTS[client].encoder(options).feed(events)


def test_every_event_has_an_event_line_with_its_name():
    for line in encoded(START, TextDelta("x"), END).split(b"\n\n")[:-1]:
        name, payload = line.split(b"\n")
        assert json.loads(payload.removeprefix(b"data: "))["type"] == name[7:].decode()


def test_content_is_sent_in_deltas_only():
    body = encoded(
        START, TextDelta("x"), ToolCallStart("a", "f"), ToolCallDelta('{"x":1}'), ToolCallEnd(), END
    )
    starts = [
        event["content_block"] for name, event in payloads(body) if name == "content_block_start"
    ]
    assert starts == [
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
    ]


def test_message_start_has_all_fields_that_strict_sdks_require():
    message = payloads(encoded(START, options=ReplyOptions(input_estimate=1234)))[0][1]["message"]
    assert message == {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 1234, "output_tokens": 0},
    }  # fmt: skip


def test_p8_message_start_never_reports_zero_tokens_and_message_delta_has_the_final_counts():
    body = encoded(START, TextDelta("x"), END, options=ReplyOptions(input_estimate=0))
    assert payloads(body)[0][1]["message"]["usage"]["input_tokens"] == 1
    usage = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 3}
    assert view(body, "anthropic").usage == usage


def test_a_call_without_arguments_still_sends_an_object():
    for client in DIALECTS:
        body = encoded(START, ToolCallStart("a", "f"), ToolCallEnd(), END, client=client)
        assert view(body, client).calls == [{"name": "f", "arguments": {}}]


def test_p6_blocks_are_framed_one_after_another():
    body = encoded(
        START,
        ToolCallStart("a", "f"),
        ToolCallDelta("{}"),
        ToolCallEnd(),
        TextDelta("x"),
        TextDelta("y"),
        END,
    )
    assert view(body, "anthropic").names == [
        "message_start",
        "content_block_start", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip


def test_an_open_call_is_not_closed_before_an_error():
    failed = MessageFailed(FailureKind.TRANSFORMATION, "why")
    body = encoded(START, ToolCallStart("a", "f"), ToolCallDelta('{"x":'), failed)
    assert view(body, "anthropic").names == [
        "message_start", "content_block_start", "content_block_delta", "error", "message_stop",
    ]  # fmt: skip
    assert payloads(body)[-2][1] == {
        "type": "error",
        "error": {"type": "format_transformation_error", "message": "why"},
    }
    assert payloads(body)[-1][1] == {"type": "message_stop"}


def test_a_call_that_fails_before_its_first_argument_is_never_sent():
    for client in DIALECTS:
        body = encoded(
            START,
            ToolCallStart("a", "f"),
            ToolCallFailed(CallFault.TRUNCATED),
            MessageFailed(FailureKind.TRANSFORMATION, "why"),
            client=client,
        )
        assert b'"f"' not in body


def test_an_open_text_block_is_closed_before_an_error():
    body = encoded(START, TextDelta("x"), MessageFailed(FailureKind.UPSTREAM, "why"))
    assert view(body, "anthropic").names[-3:] == ["content_block_stop", "error", "message_stop"]


def test_a_call_cut_by_the_token_limit_closes_its_block_and_says_max_tokens():
    cut = stream(calls(entry(0, "a", "f", '{"x":')), finish="length")
    received = view(relay(cut, client="anthropic"), "anthropic")
    assert received.names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert (received.stop, received.calls) == ("max_tokens", [])
    assert view(relay(cut, client="openai"), "openai").stop == "length"


def test_an_empty_answer_is_one_empty_text_block():
    received = view(relay(stream({"content": ""}), client="anthropic"), "anthropic")
    assert received.names[1:3] == ["content_block_start", "content_block_stop"]
    assert received.stop == "end_turn"


def test_an_openai_stream_ends_with_done_and_has_usage_only_if_requested():
    body = encoded(START, TextDelta("x"), END, client="openai")
    assert body.endswith(b"data: [DONE]\n\n")
    usage = view(body, "openai").usage
    assert usage == {
        "prompt_tokens": 13, "completion_tokens": 3, "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 4},
    }  # fmt: skip
    quiet = ReplyOptions(include_usage=False)
    assert (
        view(encoded(START, TextDelta("x"), END, client="openai", options=quiet), "openai").usage
        is None
    )


def test_an_openai_call_has_id_type_and_name_in_its_first_delta_only():
    body = encoded(
        START,
        ToolCallStart("a", "f"),
        ToolCallDelta('{"x"'),
        ToolCallDelta(":1}"),
        ToolCallEnd(),
        END,
        client="openai",
    )
    deltas = [event["choices"][0]["delta"] for _, event in payloads(body)[1:4]]
    assert deltas == [
        {"tool_calls": [{"index": 0, "id": "a", "type": "function",
                         "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
    ]  # fmt: skip


def test_an_openai_stream_that_failed_has_no_done():
    body = encoded(START, MessageFailed(FailureKind.RATE_LIMIT, "slow down"), client="openai")
    assert b"[DONE]" not in body
    assert payloads(body)[-1][1]["error"] == {
        "message": "slow down",
        "type": "rate_limit_error",
        "param": None,
        "code": "rate_limit_error",
    }


def test_ids_are_unique_in_the_whole_session():
    native = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    seen = set()
    for turn in range(3):
        identity = Identity(token=f"r{turn}", message_id=f"msg_{turn}", taken_ids=frozenset(seen))
        body = relay(
            stream({"content": native * 2}),
            client="anthropic",
            format_name="kimi",
            identity=identity,
        )
        received = view(body, "anthropic")
        assert len(received.ids) == 2
        assert not seen & set(received.ids)
        assert all(set(i) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for i in received.ids)
        assert payloads(body)[0][1]["message"]["id"] == f"msg_{turn}"
        seen |= set(received.ids)


def test_p23_the_requested_model_is_echoed():
    identity = Identity(token="t", model="claude-x")
    assert collect(decode(stream({"content": "x"}), identity=identity)).model == "claude-x"


def test_calls_beyond_the_clients_limit_are_dropped_with_a_notice():
    body = stream(calls(entry(0, "a", "f", "{}"), entry(1, "b", "g", '{"x":1}')))
    one = collect(decode(body, max_calls=1))
    assert [part.name for part in one.parts] == ["f"]
    assert one.stop_reason is StopReason.TOOL_USE
    none = collect(decode(body, max_calls=0))
    assert (none.parts, none.stop_reason, none.failure) == ([], StopReason.END_TURN, None)
    assert {notice.code for notice in none.notices} == {"surplus_call_dropped"}


def test_a_split_surrogate_pair_reaches_the_client_whole():
    half = b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
    other = b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n'
    body = relay(half + other + stream(), client="anthropic")
    assert b'"text":"\\ud83d\\ude00"' in body
    assert view(body, "anthropic").text == "😀"


def test_u31_text_that_imitates_events_stays_text():
    evil = '\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
    for client in DIALECTS:
        assert view(relay(stream({"content": evil}), client=client), client).text == evil


MATRIX = {
    "incomplete structure": stream(calls(entry(0, "a", arguments="{}"))),
    "arguments that are not JSON": stream(calls(entry(0, "a", "f", "{oops}"))),
    "cut call": stream(calls(entry(0, "a", "f", '{"x":'))),
    "cut section": stream(
        {"content": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f"}
    ),
}


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("body", MATRIX.values(), ids=MATRIX)
def test_seed_000_a_failed_translation_is_a_502_and_a_typed_error_event(client, body):
    failed = decode(body, format_name="kimi")[-1]
    assert isinstance(failed, MessageFailed)
    assert STATUS[failed.kind] == 502
    received = view(relay(body, client=client, format_name="kimi"), client)
    assert (received.error, received.stop) == (
        error_type("format_transformation_error", client),
        None,
    )


def test_seed_000_an_exceeded_limit_is_a_502_and_a_defect_of_the_library_a_500():
    assert LimitExceeded("held_chars", 9).status == 502
    assert UpstreamError("x").status == 502
    assert STATUS[FailureKind.INTERNAL] == 500


@pytest.mark.parametrize("client", DIALECTS)
def test_an_error_body_is_in_the_clients_dialect_and_has_the_request_id(client):
    body = json.loads(
        DIALECTS[client].encode_error(FailureKind.INVALID_REQUEST, "why", request_id="req_1")
    )
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["message"] == "why (request req_1)"
    assert body["request_id"] == "req_1"


def test_an_error_outside_the_stream_ends_the_message_once():
    pipeline = build_pipeline(
        client="anthropic", upstream="openai", format_name="kimi", identity=IDENTITY
    )
    shown = pipeline.feed(stream({"content": "Hi <|tool"}, finish=None, done=False))
    shown += pipeline.encode(pipeline.fail(UpstreamError("gone", kind=FailureKind.TIMEOUT)))
    received = view(shown, "anthropic")
    assert (received.text, received.error) == ("Hi <|tool", "overloaded_error")
    assert pipeline.done
    assert pipeline.feed(stream({"content": "more"})) + pipeline.close() == b""


TYPES = {
    # kind: (Anthropic, if a retry makes sense or not; OpenAI, the same)
    FailureKind.UPSTREAM: ("overloaded_error", "api_error", "server_error", "api_error"),
    FailureKind.TIMEOUT: ("overloaded_error", "api_error", "server_error", "timeout_error"),
    FailureKind.OVERLOADED: ("overloaded_error", "api_error", "server_error", "overloaded_error"),
    FailureKind.INTERNAL: ("api_error", "api_error", "server_error", "internal_error"),
    FailureKind.RATE_LIMIT: ("rate_limit_error",) * 4,
    FailureKind.INVALID_REQUEST: ("invalid_request_error",) * 4,
    FailureKind.TRANSFORMATION: (
        "format_transformation_error",
        "format_transformation_error",
        "server_error",
        "format_transformation_error",
    ),
}


@pytest.mark.parametrize("kind", TYPES)
def test_c4_the_type_of_an_error_in_a_stream_says_whether_to_retry(kind):
    """C4: opencode never retries `api_error`; inside a stream there is no status."""
    types = []
    for client in ("anthropic", "openai"):
        for is_final in (False, True):
            body = encoded(START, MessageFailed(kind, "why", is_final=is_final), client=client)
            types.append(view(body, client).error)
    assert tuple(types) == TYPES[kind]


@pytest.mark.parametrize("client", DIALECTS)
def test_n2_an_error_in_a_stream_names_the_request(client):
    """N2: Claude Code prints only the message."""
    encoder = DIALECTS[client].encoder(ReplyOptions(request_id="req_1"))
    sent = encoder.feed([START, TextDelta("x"), MessageFailed(FailureKind.UPSTREAM, "why")])
    error = next(event for _, event in payloads(sent) if "error" in event)
    assert error["error"]["message"] == "why (request req_1)"
    assert error["request_id"] == "req_1"
    code = error["error"].get("code", "server_error")
    assert code == "server_error"
