"""Error messages for the client, made from an upstream's error answers."""

import json

import pytest

from formats import (
    FailureKind,
    MessageFailed,
    as_context_overflow,
    format_with_settings,
    is_error_body,
    read_error_answer,
    with_request_id,
)
from formats.conversation import Text, ToolCall
from formats.errors import UpstreamError
from tests.support.wire import chunk, data, decode, reply_from, stream, toolbox

OVERFLOWS = {
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.": (130000, 128000),
    "This endpoint's maximum context length is 131072 tokens. However, you requested about 143261 tokens (111261 of text input, 32000 in the output).": (143261, 131072),
    "The decoder prompt (length 40000) is longer than the maximum model length of 32768.": (40000, 32768),
    "Your request exceeded model token limit: 262144 (requested: 270000)": (270000, 262144),
    "Range of input length should be [1, 129024]": (300000, 129024),
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": (1200000, 1048576),
    "Prompt contains 40,000 tokens and 0 draft tokens, too large for model with 32,768 maximum context length": (40000, 32768),
    "the request exceeds the available context size (8192 tokens), try increasing it": (300000, 8192),
    "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 40000 tokens: 39000 from input + 1000 completion": (40000, 32768),
    "Input is too long for requested model.": (300000, 200000),
    "context_length_exceeded": (300000, 200000),
    "prompt is too long: 250000 tokens > 200000 maximum": (250000, 200000),
}  # fmt: skip


@pytest.mark.parametrize("message", OVERFLOWS)
@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_a_context_overflow_in_any_wording_gets_the_wording_that_clients_recognise(message, status):
    body = json.dumps({"error": {"message": message, "code": status}}).encode()
    error = read_error_answer(status, body, tokens=300000, window=200000)
    asked, limit = OVERFLOWS[message]
    assert str(error) == f"prompt is too long: {asked} tokens > {limit} maximum"
    assert (error.status, error.kind) == (400, FailureKind.INVALID_REQUEST)


@pytest.mark.parametrize("message", OVERFLOWS)
def test_a_context_overflow_inside_a_stream_gets_the_same_wording(message):
    [*_, failed] = decode(chunk({"role": "assistant"}) + data({"error": {"message": message}}))
    assert isinstance(failed, MessageFailed)
    assert failed.kind is FailureKind.INVALID_REQUEST
    assert failed.message.startswith("prompt is too long")


def test_unknown_token_counts_are_not_invented():
    error = as_context_overflow(UpstreamError("Prompt exceeds max length"))
    assert str(error) == "prompt is too long: Prompt exceeds max length"
    error = as_context_overflow(UpstreamError("Prompt exceeds max length"), tokens=10, window=100)
    assert str(error) == "prompt is too long: Prompt exceeds max length"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Rate limit: context length exceeded the limit of 30000 tokens per minute"),
        (400, "max_tokens is too large: 64000. This model supports at most 8192"),
        (400, "tools.0.context: unknown field"),
    ],
)
def test_other_errors_keep_their_wording(status, message):
    error = read_error_answer(status, json.dumps({"error": {"message": message}}).encode())
    assert (str(error), error.status) == (message, status)


def test_the_message_about_max_tokens_is_kept_because_clients_act_on_it():
    message = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"
    error = read_error_answer(400, json.dumps({"error": {"message": message}}).encode())
    assert (str(error), error.status) == (message, 400)


@pytest.mark.parametrize(
    ("status", "kind", "client_status"),
    [
        (400, FailureKind.INVALID_REQUEST, 400),
        (401, FailureKind.UPSTREAM, 502),
        (402, FailureKind.UPSTREAM, 502),
        (403, FailureKind.UPSTREAM, 502),
        (404, FailureKind.NOT_FOUND, 404),
        (408, FailureKind.TIMEOUT, 504),
        (413, FailureKind.TOO_LARGE, 413),
        (418, FailureKind.UPSTREAM, 502),
        (422, FailureKind.INVALID_REQUEST, 400),
        (429, FailureKind.RATE_LIMIT, 429),
        (500, FailureKind.UPSTREAM, 500),
        (502, FailureKind.UPSTREAM, 502),
        (503, FailureKind.OVERLOADED, 529),
        (504, FailureKind.TIMEOUT, 504),
        (529, FailureKind.OVERLOADED, 529),
    ],
)
def test_each_status_has_its_own_kind(status, kind, client_status):
    error = read_error_answer(status, b'{"error":{"message":"it says so"}}')
    assert (error.kind, error.status) == (kind, client_status)


@pytest.mark.parametrize("body", [b"", b"<html><body>502</body></html>", b"\xff", b"[" * 5000])
def test_a_body_without_a_readable_message_is_not_forwarded(body):
    assert str(read_error_answer(502, body)) == "The upstream answered 502 Bad Gateway"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "m", "code": 400}}, "m"),
        ({"type": "error", "error": {"type": "t", "message": "m"}}, "m"),
        ({"detail": "m"}, "m"),
        ({"detail": [{"loc": ["body"], "msg": "m"}]}, "m"),
        ({"error": "m"}, "m"),
        ({"object": "error", "message": "m"}, "m"),
        ([{"error": {"message": "m"}}], "m"),
        ({"error": {"message": "m", "metadata": {"raw": '{"error":{"message":"inner"}}'}}}, "m: inner"),
        ({"error": {"message": "m", "metadata": {"raw": "<html>"}}}, "m"),
    ],
)  # fmt: skip
def test_the_message_is_found_in_every_shape_of_error(body, message):
    assert str(read_error_answer(400, json.dumps(body).encode())) == message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error":{"message":"m"}}', b'{"error":{"message":"m (request req_1)"},"request_id":"req_1"}'),
        (b'{"error":{"code":4.0}}', b'{"error":{"code":4.0,"message":"No (request req_1)"},"request_id":"req_1"}'),
        (b'{"error":{"message":null}}', b'{"error":{"message":"No (request req_1)"},"request_id":"req_1"}'),
        (b'{"error":{"message":{"a":1e1}}}', b'{"error":{"message":{"a":1e1}},"request_id":"req_1"}'),
        (b'{"error":{"message":"a"},"error":{"message":"b"}}', b'{"error":{"message":"b (request req_1)"},"request_id":"req_1"}'),
        (b'{"request_id":null,"error":{"message":"m"}}', b'{"request_id":"req_1","error":{"message":"m (request req_1)"},"upstream_request_id":null}'),
    ],
)  # fmt: skip
def test_n2_an_error_body_of_any_shape_gets_the_request_id_and_keeps_its_values(body, expected):
    assert is_error_body(body)
    assert with_request_id(body, "req_1", otherwise="No") == expected


ODD_BODIES = [b"{}", b"[]", b'{"error":{}}', b'{"error":"m"}', b'{"error":{"a":1}', b'{"error":{"a":"\xff"}}', b'{"\xff":1,"error":{"a":1}}', b'{"error":{"a":"\\ud800"}}', b'{"error":' * 5000]  # fmt: skip


@pytest.mark.parametrize("body", ODD_BODIES)
def test_a_body_that_cannot_get_the_request_id_is_not_an_error_body(body):
    assert not is_error_body(body)


TOOLS = [{"function": {"name": "f", "parameters": {}}}]


def test_an_operator_can_add_a_spelling_of_a_format_token():
    text = '<|calls|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a":1}<|tool_call_end|><|/calls|>'
    more = (("SECTION_BEGIN", "<|calls|>"), ("SECTION_END", "<|/calls|>"))
    for pieces in ([text], list(text)):
        wire = stream(*({"content": piece} for piece in pieces))
        reply = reply_from(wire, format_name="kimi", tools=toolbox(TOOLS), markers=more)
        assert [part.name for part in reply.parts] == ["f"]
    untaught = reply_from(stream({"content": text}), format_name="kimi", tools=toolbox(TOOLS))
    assert "<|calls|>" in untaught.parts[0].text


def test_an_added_spelling_may_begin_with_any_symbol():
    more = (("CALL_BEGIN", "[[call]]"), ("ARGUMENTS_BEGIN", "^args^"), ("CALL_END", "[[/call]]"))
    text = 'Hm. [[call]]functions.f:0^args^{"a":"b[[/call]] Then. [[call]]functions.f:1^args^{}[[/call]]'
    for pieces in ([text], list(text), text.partition("[[call]]")):
        wire = stream(*({"content": piece} for piece in pieces))
        reply = reply_from(wire, format_name="kimi", tools=toolbox(TOOLS), markers=more)
        assert [part.text for part in reply.parts if isinstance(part, Text)] == ["Hm. ", " Then. "]
        assert [part.arguments for part in reply.parts if isinstance(part, ToolCall)] == [b"{}"]
        assert reply.faults == ["invalid_json"]


@pytest.mark.parametrize(
    ("format_name", "role", "text"),
    [
        ("kimi", "NO_SUCH_TOKEN", "<|x|>"),
        ("kimi", "SECTION_BEGIN", "ab"),
        ("kimi", "SECTION_BEGIN", "word"),
        ("standard", "SECTION_BEGIN", "<|x|>"),
    ],
)
def test_an_invalid_spelling_is_refused(format_name, role, text):
    with pytest.raises(ValueError, match=r"token|mark"):
        format_with_settings(format_name, ((role, text),))
