"""Passthrough between a client and an upstream of one dialect, and its exceptions."""

import hashlib
import json
import time
from itertools import product

import anthropic
import httpx
import openai
import pytest

from proxy.configuration.loop_guard import VIA
from tests.support.client_views import check_end, error_type, view
from tests.support.gateway import KEY
from tests.support.operator_session import Operator
from tests.support.scripted_upstream import Close, Pause, reply, whole
from tests.support.upstream_answers import Call, chunk, document, event, says, stream, write_calls
from tests.support.wire import data

GENUINE = "c2lnbmF0dXJl" * 30
PATHS = {"anthropic": "/v1/messages?beta=true&x=%20y", "openai": "/v1/chat/completions?x=1"}
KEYS = {
    "anthropic": ("x-api-key", "sk-ant-canary-of-the-upstream"),
    "openai": ("authorization", "Bearer sk-oai-canary-of-the-upstream"),
}

# Requests with escapes, white space, fields and blocks that a re-encoding would change.
ODD_REQUESTS = {
    "anthropic": rb"""
 { "metadata":{"user_id":"u\u002d1" } ,"model":"MODEL", "max_tokens" :1024,"temperature":1.0E0,
 "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1;"},{"cache_control":{"type":"ephemeral","ttl":"1h"},"type":"text","text":"S\/"}],
 "messages":[ {"role":"user","content":[{"type":"text","text":"caf\u00e9 \ud83d\ude00","citations":null, "cache_control" : {"type":"ephemeral"}}]},
   {"role":"assistant","content":[{"thinking":"h\u006dm","signature":"GENUINE","type":"thinking"},{"type":"redacted_thinking","data":"xyz"},{"type":"text","text":"ok"}]},
   {"role":"system","content":[]}, {"content":"go on" ,"role":"user", "new_field":{}} ],
 "context_management":{"edits":[ ]}, "mcp_servers":[], "big":12345678901234567890123,"stream":STREAM }
""".replace(b"GENUINE", GENUINE.encode()),
    "openai": rb"""{"messages":[ {"role":"system","content":"S\/"}, {"role":"user","content":[{"type":"text","text":"caf\u00e9"}] ,"odd":1.50} ],
 "model":"MODEL" ,"logit_bias":{"50256":-1e2},"n":1,"seed":12345678901234567890123, "new_field":{"a":[ ]}
 ,"stream_options":{"include_usage":true , "include_obfuscation":false},"stream":STREAM
}""",
}  # fmt: skip

ODD_STREAMS = {
    "anthropic": [
        b": a comment\n\n",
        b'event: message_start\r\ndata: {"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":3,"cache_read_input_tokens":9,"service_tier":"standard"}}}\r\n\r\n',
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h\\u006dm"}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}\n\n',
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"q\\":1}"}}\n\n',
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}\n\n',
        b'event: brand_new\ndata: {"type":"brand_new",\ndata: "n":1.50}\n\n',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_9","name":"look","input":{}}}\n\n',
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"path\\": \\"Grüße\\\\u00e9 1.0"}}\n\n'.encode(),
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\\"}"}}\n\n',
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":2}\n\n',
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"container":null},"usage":{"output_tokens":5}}\n\n',
        b'event: message_stop\ndata: {"type":"message_stop", "amazon":{"n":1}}\n\n',
    ],
    "openai": [
        b": OPENROUTER PROCESSING\n\n",
        b'data: {"id":"gen-1","provider":"Parasail","object":"chat.completion.chunk","created":1,"model":"vendor/x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abc"}\n\n',
        b'data: {"id":"gen-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"","reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"unknown","index":0}]},"finish_reason":null}]}\r\n\r\n',
        'data: {"id":"gen-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"caf\\u00e9 Gr\u00fc\u00dfe \u2028 < 1.50"},"finish_reason":null}]}\n\n'.encode(),
        b'data: {"id":"gen-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_9","type":"function","function":{"name":"look","arguments":""}}]},"finish_reason":null}]}\n\n',
        b'data: {"id":"gen-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{ \\"path\\": 1.50}"}}]},"finish_reason":null}]}\n\n',
        b'data: {"id":"gen-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls","native_finish_reason":"STOP"}]}\n\n',
        b'data: {"id":"gen-1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":5,"cost":0.00010,"prompt_tokens_details":{"cached_tokens":9}}}\n\n',
        b"data: [DONE]\n\n",
    ],
}  # fmt: skip
ODD_DOCUMENTS = {
    "anthropic": b'\n{ "model":"claude-x","id":"msg_01", "type":"message","role":"assistant","content":[{"type":"text","text":"caf\\u00e9","citations":[]},{"type":"brand_new","n":1.50},{"type":"tool_use","id":"toolu_9","name":"look","input":{"path" : 1.0E2}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"cache_read_input_tokens":9,"output_tokens":5},"container":null }\n',
    "openai": b'\n\n {"id":"gen-1", "object":"chat.completion","created":1,"model":"vendor/x","provider":"Parasail","choices":[{"index":0,"logprobs":null,"message":{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"call_9","type":"function","function":{"name":"look","arguments":"{ \\"path\\": 1.50}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":12,"completion_tokens":5,"cost":0.00010,"prompt_tokens_details":{"cached_tokens":9}}}',
}  # fmt: skip


@pytest.fixture(autouse=True)
def _upstreams(both_dialects):
    """Every test here uses upstreams of both dialects."""


def request_of(dialect, model, *, streamed=True):
    body = ODD_REQUESTS[dialect].replace(b"MODEL", model.encode())
    body = body.replace(b"STREAM", b"true" if streamed else b"false")
    if dialect == "openai" and not streamed:
        body = body.replace(b'"stream_options"', b'"stream_choices"')
    return body


def small(dialect, model, *, streamed=True, **fields):
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": model, "max_tokens": 99, "messages": messages, "stream": streamed, **fields}
    if dialect == "openai" and streamed:
        body["stream_options"] = {"include_usage": True}
    return body


def sha(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("format_name", ["standard", "auto"])
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("dialect", PATHS)
def test_requests_and_answers_are_passed_through_byte_for_byte(
    gateway, client, upstream, dialect, streamed, format_name
):
    model = f"{dialect}-{format_name}-bytes-{streamed}"
    if streamed:
        answer = b"".join(ODD_STREAMS[dialect])
        cuts = [answer[at : at + 97] for at in range(0, len(answer), 97)]
        script = upstream.script(model, reply(*cuts))
    else:
        answer = ODD_DOCUMENTS[dialect]
        script = upstream.script(model, whole(answer))
    asked = request_of(dialect, model, streamed=streamed)
    response = client.post(
        PATHS[dialect], content=asked, headers={"content-type": "application/json"}
    )
    assert response.status_code == 200
    assert response.content == answer
    assert sha(response.content) == sha(answer)
    assert script.last.body == asked
    assert sha(script.last.body) == sha(asked)
    assert script.last.path == PATHS[dialect]
    row = gateway.exchange(response)
    assert row["format"] == format_name
    assert (row["outcome"], row["tool_calls"], row["stop_reason"]) == ("ok", 1, "tool_use")
    assert (row["input_tokens"], row["output_tokens"], row["cache_read_tokens"]) == (3, 5, 9)
    assert row["served_by"] == ("Parasail" if dialect == "openai" else "")
    assert row["bytes_out"] == row["bytes_upstream"] == len(answer)
    if streamed and dialect == "anthropic":
        assert ["unknown_event", "brand_new", 1] in row["notices"]
        assert ["content_unsupported", "server_tool_use", 1] in row["notices"]


@pytest.mark.parametrize("dialect", PATHS)
def test_only_the_credential_and_allowed_headers_are_forwarded(client, upstream, dialect):
    model = f"{dialect}-standard-headers"
    script = upstream.script(model, says(dialect, "Hi"))
    carried = {
        "anthropic": {
            "anthropic-beta": "claude-code-20250219,brand-new-2026-11-17",
            "anthropic-version": "2026-10-21",
            "anthropic-dangerous-direct-browser-access": "true",
            "anthropic-brand-new": "caf\xe9",
        },
        "openai": {"openai-beta": "assistants=v2", "openai-project": "proj_1"},
    }
    others = {
        "cookie": "a=b",
        "authorization": f"Bearer {KEY}",
        "x-forwarded-for": "1.2.3.4",
        "forwarded": "for=1.2.3.4",
        "via": "1.1 x",
        "te": "trailers",
        "x-stainless-os": "Linux",
        "x-claude-code-session-id": "s",
        "anthropicish": "no",
        "user-agent": "claude-cli/2",
    }
    sent = {**carried["anthropic"], **carried["openai"], **others}
    client.post(
        PATHS[dialect],
        json=small(dialect, model),
        headers=[(n.encode(), v.encode("latin-1")) for n, v in sent.items()],
    )
    name, secret = KEYS[dialect]
    standard = {"host", "content-type", "content-length", "accept", "accept-encoding", "user-agent"}
    got = script.last.headers
    assert set(got) == standard | {VIA, name} | set(carried[dialect])
    assert {n: got[n] for n in carried[dialect]} == carried[dialect]
    assert (got[name], got["user-agent"]) == (secret, "athena")
    assert KEY not in json.dumps(got)


def test_an_operators_header_wins_but_list_headers_are_joined(gateway, client, upstream, model):
    gateway.edit(
        "u = Upstream.objects.create(name='strict', dialect='anthropic',"
        f" base_url={upstream.url!r}, headers={{'Anthropic-Workspace': 'ours', 'anthropic-beta': 'b-ours'}})\n"
        f"ModelRoute.objects.create(pattern={model!r}, upstream=u)"
    )
    script = upstream.script(model, says("anthropic", "Hi"))
    headers = {"anthropic-workspace": "theirs", "anthropic-beta": "b-theirs"}
    client.post(PATHS["anthropic"], json=small("anthropic", model), headers=headers)
    assert script.last.headers["anthropic-workspace"] == "ours"
    assert script.last.headers["anthropic-version"] == "2023-06-01"
    assert script.last.headers["anthropic-beta"] in ("b-theirs", "b-ours, b-theirs")


@pytest.mark.parametrize("dialect", PATHS)
def test_a_route_to_another_model_changes_only_that_value(gateway, client, upstream, dialect):
    name, model = f"renamed-{dialect}", f"{dialect}-standard-renamed"
    gateway.edit(
        f"u = Upstream.objects.get(name={'claude' if dialect == 'anthropic' else 'plain'!r})\n"
        f"ModelRoute.objects.create(pattern={name!r}, upstream=u, upstream_model={model!r})"
    )
    script = upstream.script(model, says(dialect, "Hi", model=model))
    asked = request_of(dialect, f"{name}[1m]")
    response = client.post(PATHS[dialect], content=asked)
    assert script.last.body == asked.replace(b'"%b[1m]"' % name.encode(), b'"%b"' % model.encode())
    assert model in response.text  # the client sees the name that the upstream sent


def test_usage_is_requested_and_hidden_from_a_client_that_did_not_ask_for_it(
    gateway, client, upstream
):
    model = "openai-standard-counted"
    events = [*stream("openai", "Hi", model=model)]
    script = upstream.script(model, reply(*events))
    body = b'{ "model":"%b", "messages":[{"role":"user","content":"x"}],"stream":true}'
    body = body % model.encode()
    response = client.post(PATHS["openai"], content=body)
    assert script.last.body == body[:-1] + b',"stream_options":{"include_usage":true}}'
    assert response.content == b"".join(e for e in events if b'"usage": {' not in e)
    assert b"usage" not in response.content
    assert gateway.exchange(response)["output_tokens"] == 7


@pytest.mark.parametrize("dialect", PATHS)
def test_a_native_call_is_rescued_in_the_middle_of_a_relayed_stream(
    gateway, client, upstream, dialect
):
    model = f"{dialect}-kimi-seam"
    call = Call("look", {"path": "pier"})
    lead = [*stream(dialect, "First <b>some</b> text. ", model=model)]
    lead = lead[: 2 if dialect == "openai" else 4]
    parts = _split(write_calls("kimi", [call]), 9)
    if dialect == "openai":
        native = [chunk({"content": part}, model=model) for part in parts]
        native += [chunk({}, "stop", model=model), b"data: [DONE]\n\n"]
    else:
        deltas = [{"type": "text_delta", "text": part} for part in parts]
        native = [event({"type": "content_block_delta", "index": 0, "delta": d}) for d in deltas]
        native += [
            event({"type": "content_block_stop", "index": 0}),
            event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}),
            event({"type": "message_stop"}),
        ]
    upstream.script(model, reply(*lead, *native))
    response = client.post(PATHS[dialect], json=small(dialect, model))
    assert response.content.startswith(b"".join(lead))
    seen = view(response.content, dialect)
    assert seen.text == "First <b>some</b> text. "
    assert seen.calls == [{"name": "look", "arguments": {"path": "pier"}}]
    assert seen.stop in ("tool_use", "tool_calls")
    assert b"tool_call" not in response.content.replace(b'"tool_calls"', b"")
    row = gateway.exchange(response)
    assert (row["rescued_calls"], row["format"]) == (1, "kimi")


def _split(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


REFUSAL = b'{ "type":"error","error":{"type":"odd\\u0021" ,"message":"No\\u0021", "param":"a.b","code":null,"n":1.50},"request_id":"req_up","big":12345678901234567890123}'
REFUSED = b'{"type":"error","error":{"type":"odd\\u0021","message":"No! (request %b)","param":"a.b","code":null,"n":1.50},"request_id":"%b","big":12345678901234567890123,"upstream_request_id":"req_up"}'
FORWARDED_HEADERS = {
    "retry-after": "7",
    "x-should-retry": "true",
    "anthropic-ratelimit-unified-reset": "9",
    "x-ratelimit-remaining-requests": "0",
}
WITHHELD_HEADERS = [
    "request-id: req_up",
    "set-cookie: a=b",
    "anthropic-organization-id: ours",
    "server: x",
]


def named(message, response):
    return f"{message} (request {response.headers['request-id']})"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "upstream_refused"),
        (404, "upstream_not_found"),
        (413, "upstream_too_large"),
        (422, "upstream_refused"),
        (429, "upstream_rate_limit"),
        (500, "upstream_error"),
    ],
)
def test_n2_an_upstreams_error_response_keeps_its_values_and_names_the_request(
    gateway, client, upstream, status, code
):
    """N2: clients show the body without the headers."""
    headers = [
        *(f"{name}: {value}" for name, value in FORWARDED_HEADERS.items()),
        *WITHHELD_HEADERS,
    ]
    responses = []
    for dialect in PATHS:
        for streamed in (True, False):
            model = f"{dialect}-standard-refused-{status}-{streamed}"
            upstream.script(model, whole(REFUSAL, status, headers))
            body = small(dialect, model, streamed=streamed)
            responses.append(client.post(PATHS[dialect], json=body))
    ours = {"request-id", "x-request-id", "x-athena-error", "x-athena-error-source"}
    ours |= {"date", "content-type", "content-length", "x-upstream-request-id"}
    for response in responses:
        named = response.headers["request-id"].encode()
        assert (response.status_code, response.content) == (status, REFUSED % (named, named))
        assert set(response.headers) == ours | set(FORWARDED_HEADERS)
        assert {name: response.headers[name] for name in FORWARDED_HEADERS} == FORWARDED_HEADERS
        assert response.headers["x-upstream-request-id"] == "req_up"
        row = gateway.exchange(response)
        assert (row["error_code"], row["status"]) == (code, status)
        assert row["error_message"].endswith("No!")


@pytest.mark.parametrize("dialect", PATHS)
def test_an_error_response_that_a_client_must_not_see_is_replaced(client, upstream, dialect):
    model, (_, secret) = f"{dialect}-standard-masked", KEYS[dialect]
    key = secret.removeprefix("Bearer ")
    upstream.script(
        model,
        whole({"error": {"message": f"bad key {key}", "type": "x"}}, 400),
        whole({"error": {"message": "invalid x-api-key", "type": "authentication_error"}}, 401),
        whole(b"<html>Bad gateway</html>", 404),
    )
    ask = small(dialect, model)
    leaking, refused, page = (client.post(PATHS[dialect], json=ask) for _ in range(3))
    assert leaking.json()["error"] == {"message": named("bad key [redacted]", leaking), "type": "x"}
    assert (refused.status_code, refused.headers["x-athena-error"]) == (502, "upstream_auth")
    assert "x-api-key" not in refused.text
    assert page.status_code == 404
    assert "<" not in page.text
    assert "error" in page.json()


@pytest.mark.parametrize("dialect", PATHS)
def test_a_key_written_in_escapes_is_redacted_from_an_error_response(client, upstream, dialect):
    model, (_, secret) = f"{dialect}-standard-escaped", KEYS[dialect]
    key = secret.removeprefix("Bearer ")
    spelled = "".join(f"\\u{ord(char):04X}" if at % 3 else char for at, char in enumerate(key))
    body = b'{"error": {"message": "bad", "raw": ["%b"]}}' % spelled.encode()
    assert json.loads(body)["error"]["raw"] == [key]
    upstream.script(model, whole(body, 400))
    response = client.post(PATHS[dialect], json=small(dialect, model))
    assert response.json()["error"] == {"message": named("bad", response), "raw": ["[redacted]"]}


@pytest.mark.parametrize("status", [201, 600, 999])
def test_an_error_response_with_an_invalid_status_is_a_bad_gateway(
    gateway, client, upstream, status
):
    model = f"openai-standard-status-{status}"
    upstream.script(model, whole({"error": {"message": "nope"}}, status))
    response = client.post(PATHS["openai"], json=small("openai", model))
    assert response.status_code == 502
    assert response.json()["error"]["message"]
    assert gateway.exchange(response)["status"] == 502


TOO_LONG = [
    "prompt is too long: 250000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
]


@pytest.mark.parametrize("message", TOO_LONG)
def test_n2_the_wording_that_claude_code_acts_on_is_at_the_start(client, upstream, message):
    error = {"type": "invalid_request_error", "message": message}
    model = "anthropic-compatible-too-long"
    upstream.script(model, whole({"type": "error", "error": error}, 400))
    response = client.post(PATHS["anthropic"], json=small("anthropic", model))
    assert response.json()["error"] == error | {"message": named(message, response)}


def test_n2_both_sdks_show_the_request_of_an_upstreams_error(gateway, upstream):
    model = "-standard-shown"
    for dialect in PATHS:
        upstream.script(dialect + model, whole({"error": {"message": "No", "code": "odd"}}, 400))
    ask = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9}
    with pytest.raises(anthropic.BadRequestError) as seen:
        anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0).messages.create(
            model=f"anthropic{model}", **ask
        )
    assert f"(request {seen.value.request_id})" in str(seen.value)
    with pytest.raises(openai.BadRequestError) as seen:
        openai.OpenAI(
            base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0
        ).chat.completions.create(model=f"openai{model}", **ask)
    assert f"(request {seen.value.request_id})" in str(seen.value)
    assert seen.value.code == "odd"


def test_an_overflow_in_other_words_still_makes_claude_code_compact(client, upstream):
    model = "anthropic-compatible-overflow"
    error = {"type": "invalid_request_error", "message": "maximum context length is 1000 tokens"}
    upstream.script(model, whole({"type": "error", "error": error}, 400))
    response = client.post(PATHS["anthropic"], json=small("anthropic", model))
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("prompt is too long")


@pytest.mark.parametrize("dialect", PATHS)
def test_an_error_in_the_stream_ends_the_answer_and_is_audited(gateway, client, upstream, dialect):
    model = f"{dialect}-standard-failing"
    started = [*stream(dialect, "Hello", model=model)][: 2 if dialect == "openai" else 4]
    failed = {
        "anthropic": b'event: error\ndata: {"type":"error","error":{"details":null,"type":"overloaded_error","message":"Full"}  }\n\n',
        "openai": b'data: {"error":{"message":"Full" ,"code":503,"metadata":{}},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}\n\n',
    }[dialect]  # fmt: skip
    upstream.script(model, reply(*started, failed))
    response = client.post(PATHS[dialect], json=small(dialect, model))
    assert response.content.startswith(b"".join(started))
    check_end(response.content, dialect)
    assert response.content.count(b"Full") == 1
    row = gateway.exchange(response)
    assert (row["outcome"], row["error_code"]) == ("upstream_error", "upstream_overloaded")


@pytest.mark.parametrize("dialect", PATHS)
def test_an_error_in_the_stream_with_the_gateways_credential_is_rewritten(
    client, upstream, dialect
):
    model, (_, secret) = f"{dialect}-standard-leaking", KEYS[dialect]
    started = [*stream(dialect, "Hello", model=model)][: 2 if dialect == "openai" else 4]
    for place in ("message", "raw"):
        error = {"type": "error", "error": {"type": "api_error", place: f"key {secret}"}}
        failed = (
            event(error) if dialect == "anthropic" else b"data: %b\n\n" % json.dumps(error).encode()
        )
        upstream.script(model, reply(*started, failed))
        response = client.post(PATHS[dialect], json=small(dialect, model))
        assert response.content.startswith(b"".join(started))
        assert "canary" not in response.text
        assert ("[redacted]" in response.text) == (place == "message")


@pytest.mark.parametrize("dialect", PATHS)
def test_w2_a_stream_without_its_terminator_gets_one(gateway, client, upstream, dialect):
    """W2: the upstream ends cleanly after the finish reason."""
    model = f"{dialect}-standard-unterminated"
    events = [*stream(dialect, "Hello", model=model)]
    upstream.script(model, reply(*events[:-1]), reply(*events[:-1], events[-1].rstrip()))
    for _ in range(2):
        response = client.post(PATHS[dialect], json=small(dialect, model))
        check_end(response.content, dialect)
        seen = view(response.content, dialect)
        assert (seen.text, seen.error) == ("Hello", None)
        assert seen.stop == view(b"".join(events), dialect).stop
        assert gateway.exchange(response)["outcome"] == "ok"


@pytest.mark.parametrize("dialect", PATHS)
def test_an_answer_in_one_read_is_passed_through_byte_for_byte(gateway, client, upstream, dialect):
    model = f"{dialect}-standard-burst"
    answer = b"".join(stream(dialect, "some words " * 4000, model=model))
    assert len(answer) > 20_000
    upstream.script(model, reply(answer))
    response = client.post(PATHS[dialect], json=small(dialect, model))
    assert sha(response.content) == sha(answer)
    row = gateway.exchange(response)
    assert (row["outcome"], row["bytes_upstream"]) == ("ok", len(answer))


@pytest.mark.parametrize("dialect", PATHS)
def test_data_after_the_end_in_the_same_read_is_dropped(client, upstream, dialect):
    model, (_, secret) = f"{dialect}-standard-crowded", KEYS[dialect]
    good = b"".join(stream(dialect, "Hello", model=model))
    more = b"".join(stream(dialect, f"{secret} " * 1000, model=model))
    upstream.script(model, reply(good + more))
    assert len(more) > 20_000
    response = client.post(PATHS[dialect], json=small(dialect, model))
    seen = view(response.content, dialect)
    assert (seen.text, seen.calls, seen.error) == ("Hello", [], None)
    assert seen.stop == view(good, dialect).stop
    assert secret not in response.text


@pytest.mark.parametrize("dialect", PATHS)
def test_data_long_after_the_end_is_dropped(gateway, client, upstream, dialect):
    model, (_, secret) = f"{dialect}-standard-late", KEYS[dialect]
    good = [*stream(dialect, "Hello", model=model)]
    error = {"type": "error", "error": {"type": "api_error", "message": f"key {secret}"}}
    late = event(error) if dialect == "anthropic" else b"data: %b\n\n" % json.dumps(error).encode()
    upstream.script(model, reply(*good, Pause(0.1), late))
    response = client.post(PATHS[dialect], json=small(dialect, model))
    assert response.content == b"".join(good)
    assert gateway.exchange(response)["outcome"] == "ok"


@pytest.mark.parametrize("dialect", PATHS)
def test_a_lost_connection_is_an_error_and_never_an_end(gateway, client, upstream, dialect):
    model = f"{dialect}-standard-lost"
    started = [*stream(dialect, "Hello", model=model)][: 2 if dialect == "openai" else 4]
    upstream.script(model, reply(*started, b"event: content_blo", Close, ends=False))
    response = client.post(PATHS[dialect], json=small(dialect, model))
    assert response.content.startswith(b"".join(started))
    seen = view(response.content, dialect)
    assert (seen.text, seen.stop, seen.error) == ("Hello", None, error_type("api_error", dialect))
    assert gateway.exchange(response)["error_code"] == "upstream_truncated"


@pytest.mark.parametrize("dialect", PATHS)
def test_pings_during_silence_never_split_an_event(client, upstream, dialect):
    model = f"{dialect}-standard-silent"
    events = [*stream(dialect, "Hello", model=model)]
    at = 2 if dialect == "openai" else 4
    head, tail = events[at][:20], events[at][20:]
    upstream.script(model, reply(*events[:at], head, Pause(1.2), tail, *events[at + 1 :]))
    response = client.post(PATHS[dialect], json=small(dialect, model))
    ping = b": ping\n\n" if dialect == "openai" else b'event: ping\ndata: {"type":"ping"}\n\n'
    assert ping in response.content
    assert response.content.replace(ping, b"") == b"".join(events)


@pytest.mark.parametrize("dialect", PATHS)
def test_an_upstream_that_stays_open_after_the_end_does_not_delay_the_client(
    client, upstream, dialect
):
    model = f"{dialect}-standard-lingering"
    events = [*stream(dialect, "Hello", model=model)]
    upstream.script(model, reply(*events, Pause(20)))
    before = time.monotonic()
    response = client.post(PATHS[dialect], json=small(dialect, model))
    assert time.monotonic() - before < 15  # the upstream closes after 20 s
    assert response.content == b"".join(events)


def test_rate_limit_headers_of_a_successful_answer_are_forwarded(client, upstream):
    model = "anthropic-standard-limits"
    events = [*stream("anthropic", "Hi", model=model)]
    headers = ["anthropic-ratelimit-unified-status: allowed", "set-cookie: a=b"]
    upstream.script(
        model, reply(*events, headers=headers), whole(document("anthropic", "Hi"), 200, headers)
    )
    for streamed in (True, False):
        response = client.post(
            PATHS["anthropic"], json=small("anthropic", model, streamed=streamed)
        )
        assert response.headers["anthropic-ratelimit-unified-status"] == "allowed"
        assert "set-cookie" not in response.headers


# Thinking


def thinking(signature):
    return {"type": "thinking", "thinking": "Hm.", "signature": signature}


def test_p5_a_session_may_switch_from_kimi_to_claude(gateway, upstream):
    kimi, claude = "openai-kimi-switch", "anthropic-standard-switch"
    reasoned = [
        chunk({"reasoning_content": "Hm."}),
        *stream("openai", write_calls("kimi", [Call("look", {"path": "x"})])),
    ]
    upstream.script(kimi, reply(*reasoned))
    script = upstream.script(claude, says("anthropic", "Seen."))
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    with anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0) as sdk:
        history = [{"role": "user", "content": "Look."}]
        with sdk.messages.stream(
            model=kimi, max_tokens=99, messages=history, tools=tools
        ) as answer:
            first = answer.get_final_message()
        blocks = [block.model_dump(exclude_none=True) for block in first.content]
        assert [block["type"] for block in blocks] == ["thinking", "tool_use"]
        result = {"type": "tool_result", "tool_use_id": blocks[-1]["id"], "content": "a pier"}
        history += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
        second = sdk.messages.create(model=claude, max_tokens=99, messages=history, tools=tools)
    assert second.content[0].text == "Seen."
    sent = script.last.json["messages"]
    assert sent[1]["content"] == blocks[1:]
    assert sent[2] == history[2]
    assert gateway.exchange(model=claude)["notices"] == [
        ["reasoning_dropped", "not signed by Anthropic", 1]
    ]


def test_p5_genuine_thinking_is_kept_and_a_refused_signature_is_retried_without_it(
    gateway, client, upstream
):
    model = "anthropic-standard-signature"
    error = {
        "type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
    }
    script = upstream.script(
        model, whole({"type": "error", "error": error}, 400), says("anthropic", "Fine.")
    )
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [thinking(GENUINE), {"type": "text", "text": "y"}]},
        {"role": "user", "content": "z"},
    ]
    asked = json.dumps(small("anthropic", model, messages=history)).encode()
    response = client.post(PATHS["anthropic"], content=asked)
    assert view(response.content, "anthropic").text == "Fine."
    assert script.requests[0].body == asked
    assert script.requests[1].json["messages"][1]["content"] == [{"type": "text", "text": "y"}]
    assert len(script.requests) == 2
    row = gateway.exchange(response)
    assert [(a[0], a[2]) for a in row["attempts"]] == [("claude", "upstream_refused")]
    assert row["notices"] == [["reasoning_dropped", "the upstream rejected it", 1]]
    upstream.script(model, whole({"type": "error", "error": error}, 400))
    assert client.post(PATHS["anthropic"], content=asked).status_code == 400


# Fallback

CAUSES = {
    "connection": "upstream_unreachable",
    "429": "upstream_rate_limit",
    "500": "upstream_error",
    "empty": "upstream_empty",
}


@pytest.fixture(scope="session")  # a module's fixture may be set up twice on one gateway
def fallbacks(gateway, both_dialects):
    """Routes with a fallback for every pair of dialects, some with an unreachable upstream."""
    gateway.edit(
        "gone = {d: Upstream.objects.create(name=f'gone-{d}', dialect=d,"
        " base_url='http://127.0.0.1:9/v1') for d in ('anthropic', 'openai')}\n"
        "live = {'anthropic': Upstream.objects.get(name='claude'),"
        " 'openai': Upstream.objects.get(name='plain')}\n"
        "for first in live:\n"
        "    for second in live:\n"
        "        spare = ModelRoute.objects.create(pattern=f'spare-{first}-{second}',"
        " upstream=live[second], upstream_model=f'spare-{first}-{second}')\n"
        "        ModelRoute.objects.create(pattern=f'first-{first}-{second}-connection',"
        " upstream=gone[first], fallback=spare, priority=1)\n"
        "        ModelRoute.objects.create(pattern=f'first-{first}-{second}-*',"
        " upstream=live[first], fallback=spare, priority=2)"
    )


@pytest.mark.parametrize("cause", CAUSES)
def test_a_route_falls_back_to_another_of_any_dialect(gateway, client, upstream, fallbacks, cause):
    error = {"type": "error", "error": {"type": "api_error", "message": "no"}}
    answered = []
    for first, second in product(PATHS, repeat=2):
        model, spare = f"first-{first}-{second}-{cause}", f"spare-{first}-{second}"
        nothing = (e.replace(b'_tokens": 7', b'_tokens": 0') for e in stream(first, ""))
        status = int(cause) if cause.isdigit() else 500
        upstream.script(model, reply(*nothing) if cause == "empty" else whole(error, status))
        upstream.script(spare, says(second, "From the spare.", model=spare))
        for dialect in PATHS:
            response = client.post(PATHS[dialect], json=small(dialect, model))
            assert view(response.content, dialect).text == "From the spare."
            answered.append((response, second))
    for response, second in answered:
        row = gateway.exchange(response)
        assert row["outcome"] == "ok"
        assert row["upstream"] == {"anthropic": "claude", "openai": "plain"}[second]
        assert {attempt[2] for attempt in row["attempts"]} == {CAUSES[cause]}


def test_the_pages_and_the_audit_show_each_attempt(gateway, client, upstream, fallbacks):
    model = "first-openai-anthropic-429"
    upstream.script(model, whole({"error": {"message": "too many"}}, 429))
    upstream.script("spare-openai-anthropic", says("anthropic", "Hi"))
    response = client.post(PATHS["openai"], json=small("openai", model))
    row = gateway.exchange(response)
    operator = Operator(gateway)
    page = operator.get(f"/admin/audit/exchanges/{row['request_id']}/")
    operator.close()
    assert "attempt 1: plain" in page
    assert "upstream_rate_limit" in page


@pytest.mark.parametrize("dialect", PATHS)
def test_an_empty_answer_without_a_fallback_is_passed_through(client, upstream, dialect):
    model = f"{dialect}-standard-empty"
    events = [e.replace(b'_tokens": 7', b'_tokens": 0') for e in stream(dialect, "", model=model)]
    upstream.script(model, reply(*events))
    response = client.post(PATHS[dialect], json=small(dialect, model))
    assert response.content == b"".join(events)


def test_both_sdks_list_the_models_in_their_own_shape(gateway):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY) as sdk:
        listed = sdk.models.list()
        assert listed.object == "list"
        assert {model.object for model in listed.data} == {"model"}
    with anthropic.Anthropic(base_url=gateway.url, api_key=KEY) as sdk:
        assert {model.type for model in sdk.models.list(limit=1000).data} == {"model"}
    plain = httpx.get(f"{gateway.url}/v1/models", headers={"authorization": f"Bearer {KEY}"})
    assert plain.json()["object"] == "list"


def _choice(index, delta, finish=None):
    return data(
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
        }
    )


def _half_call():
    function = {"name": "get_tide", "arguments": '{"harbor": "/tmp/HALF'}
    return {"tool_calls": [{"index": 0, "id": "q", "type": "function", "function": function}]}


_WHOLE = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
_FIRST = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
_SECOND = {
    "index": 1,
    "message": {"role": "assistant", "content": None, **_half_call()},
    "finish_reason": "tool_calls",
}
_END = _choice(0, {}, "stop")
_USAGE = data(
    {**_WHOLE, "object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 1}}
)
_DONE = b"data: [DONE]\n\n"
_OTHER = _choice(1, _half_call()) + _choice(1, {}, "tool_calls")
SEVERAL = {
    "between": reply(_choice(0, {"content": "Hi"}) + _OTHER + _END + _USAGE + _DONE),
    "first": reply(_OTHER + _choice(0, {"content": "Hi"}) + _END + _USAGE + _DONE),
    "in reads of their own": reply(_choice(0, {"content": "Hi"}), Pause(0.2), _OTHER, _END, _DONE),
    "after the end": reply(_choice(0, {"content": "Hi"}) + _END + _USAGE + _OTHER + _DONE),
    "in one chunk": reply(
        data(
            {
                **_WHOLE,
                "object": "chat.completion.chunk",
                "choices": [
                    {"index": 0, "delta": {"content": "Hi"}},
                    {"index": 1, "delta": _half_call(), "finish_reason": "tool_calls"},
                ],
            }
        )
        + _END
        + _DONE
    ),
    "whole": whole({**_WHOLE, "choices": [_FIRST, _SECOND]}),
    "whole, the other first": whole({**_WHOLE, "choices": [_SECOND, _FIRST]}),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_only_the_first_of_several_choices_is_passed_through(client, upstream, case):
    script = upstream.script("openai-several", SEVERAL[case])
    streamed = "whole" not in case
    response = client.post(
        "/v1/chat/completions", json=small("openai", "openai-several", streamed=streamed)
    )
    assert response.status_code == 200
    assert script.requests
    assert "HALF" not in response.text
    assert "Hi" in response.text
    assert '"index":1' not in response.text.replace(" ", "")


def test_a_request_for_several_choices_is_refused_and_names_the_field(client, upstream):
    script = upstream.script("openai-one", says("openai", "Hi"))
    body = small("openai", "openai-one")
    refused = client.post("/v1/chat/completions", json=body | {"n": 2})
    assert (refused.status_code, refused.headers["x-athena-error"]) == (400, "invalid_request")
    assert refused.json()["error"]["param"] == "n"
    assert not script.requests
    assert client.post("/v1/chat/completions", json=body | {"n": 1}).status_code == 200
