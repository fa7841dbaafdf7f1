"""Errors as the client sees them, and the retries before them."""

import json
import re
import threading
from contextlib import closing
from socket import create_server

import httpx
import pytest

from proxy.serving.error_response import ENDPOINTS
from tests.support.chat import TOOLS, ask, chunk, data, error_of, read, reply, says, stream
from tests.support.gateway import KEY
from tests.support.scripted_upstream import Close, Reset, refused, whole

REFUSALS = [
    (400, 400, "invalid_request_error"),
    (401, 502, "api_error"),
    (402, 502, "api_error"),
    (403, 502, "api_error"),
    (404, 404, "not_found_error"),
    (408, 504, "timeout_error"),
    (413, 413, "request_too_large"),
    (422, 400, "invalid_request_error"),
    (429, 429, "rate_limit_error"),
    (500, 500, "api_error"),
    (502, 502, "api_error"),
    (503, 529, "overloaded_error"),
    (504, 504, "timeout_error"),
    (529, 529, "overloaded_error"),
]


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(("status", "expected", "kind"), REFUSALS)
def test_an_upstreams_status_is_mapped_and_kept_distinct(
    client, upstream, model, status, expected, kind, streaming
):
    upstream.script(model, whole({"error": {"message": "it says no"}}, status))
    response = client.post("/v1/messages", json=ask(model, stream=streaming))
    assert error_of(response)[:2] == (expected, kind)
    assert response.headers["x-athena-error-source"] == "upstream"
    assert response.headers["x-athena-error"]
    assert "sk-or-canary" not in response.text


def test_a_refused_gateway_credential_is_not_reported_as_the_clients_fault(client, upstream, model):
    upstream.script(model, whole({"error": {"message": "Incorrect API key sk-or-canary"}}, 401))
    response = client.post("/v1/messages", json=ask(model))
    refusal = "refuses the gateway's credential (HTTP 401)"
    assert error_of(response)[:2] == (502, "api_error")
    assert re.fullmatch(rf"the upstream \S+ {re.escape(refusal)}", error_of(response)[2])
    assert response.headers["x-athena-error"] == "upstream_auth"
    assert response.headers["x-should-retry"] == "false"


def test_the_gateways_key_is_redacted_from_an_upstreams_message(client, upstream, model):
    key = "sk-or-canary-of-the-upstream"
    upstream.script(model, whole({"error": {"message": f"bad request by {key}"}}, 400))
    assert error_of(client.post("/v1/messages", json=ask(model)))[2] == "bad request by [redacted]"
    in_stream = reply(chunk({"content": "x"}) + data({"error": {"message": f"by {key}"}}))
    upstream.script(model, in_stream)
    assert key not in client.post("/v1/messages", json=ask(model, stream=True)).text


@pytest.mark.parametrize("status", [400, 404, 500, 502])
def test_an_html_page_is_never_forwarded(client, upstream, model, status):
    upstream.script(model, whole(b"<html><h1>nginx</h1></html>", status))
    response = client.post("/v1/messages", json=ask(model))
    assert error_of(response)[0] == status
    assert "<" not in response.text


def test_an_endpoint_that_is_not_found_keeps_its_hint(client, upstream, model):
    hint = 'No endpoints found that support tool use. Try disabling "Bash".'
    upstream.script(model, whole({"error": {"message": hint, "code": 404}}, 404))
    status, kind, message = error_of(client.post("/v1/messages", json=ask(model)))
    assert (status, kind) == (404, "not_found_error")
    assert message.endswith(f" returned HTTP 404: {hint}")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("retry-after: 7", "7"),
        ("retry-after: 600", "60"),
        ("retry-after: 1.2", "2"),
        ("retry-after-ms: 1500", "2"),
        ("retry-after: -5", "0"),
        ("retry-after: Mon, 01 Jan 2024 00:00:00 +99999999999999", None),
        ("retry-after: Mon, 01 Jan 99999999999999999999999 00:00:00 GMT", None),
        ("retry-after: nonsense", None),
        ("retry-after: nan", None),
        ("retry-after: Wed, 21 Oct 2015 07:28:00 GMT", "0"),
        ("retry-after: Wed, 21 Oct 2099 07:28:00 GMT", "60"),
        ("x-nothing: 1", None),
    ],
)
def test_retry_after_is_whole_seconds_up_to_sixty(client, upstream, model, header, expected):
    upstream.script(model, whole({"error": {"message": "slow down"}}, 429, [header]))
    response = client.post("/v1/messages", json=ask(model))
    assert response.status_code == 429
    assert response.headers.get("retry-after") == expected


OVERFLOW = "This model's maximum context length is 1000 tokens. However, you requested 2000 tokens."


@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize("streaming", [True, False])
def test_an_overflow_before_the_answer_makes_the_client_compact(
    client, upstream, model, status, streaming
):
    upstream.script(model, whole({"error": {"message": OVERFLOW}}, status))
    response = client.post("/v1/messages", json=ask(model, stream=streaming))
    expected = "prompt is too long: 2000 tokens > 1000 maximum"
    assert error_of(response) == (400, "invalid_request_error", expected)


@pytest.mark.parametrize("streaming", [True, False])
def test_an_overflow_as_first_event_keeps_its_status(client, upstream, model, streaming):
    wire = chunk({"role": "assistant", "content": ""}) + data(
        {"error": {"message": OVERFLOW, "code": 400}}
    )
    upstream.script(model, reply(wire))
    response = client.post("/v1/messages", json=ask(model, stream=streaming))
    assert error_of(response)[0] == 400
    assert error_of(response)[2].startswith("prompt is too long: 2000 tokens > 1000 maximum")


def test_an_error_after_the_first_text_is_an_event(client, upstream, model):
    upstream.script(
        model,
        reply(chunk({"content": "so far"}) + data({"error": {"message": "broke", "code": 503}})),
    )
    seen = read(client.post("/v1/messages", json=ask(model, stream=True)))
    assert (seen.text, seen.error, seen.stop) == ("so far", "overloaded_error", None)
    assert seen.names[-2:] == ["error", "message_stop"]
    assert error_of(client.post("/v1/messages", json=ask(model)))[:2] == (529, "overloaded_error")


@pytest.mark.parametrize("status", [502, 503, 529])
def test_a_temporary_failure_is_retried_once(client, upstream, model, status):
    script = upstream.script(model, whole({}, status), says("Hi"))
    assert read(client.post("/v1/messages", json=ask(model, stream=True))).text == "Hi"
    assert len(script.requests) == 2
    script = upstream.script(model, whole({}, status))
    expected = 529 if status == 503 else status
    assert client.post("/v1/messages", json=ask(model)).status_code == expected
    assert len(script.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 504])
def test_other_failures_are_not_retried(client, upstream, model, status):
    script = upstream.script(model, whole({"error": {"message": "no"}}, status))
    client.post("/v1/messages", json=ask(model))
    assert len(script.requests) == 1


@pytest.mark.parametrize("fault", [Reset, Close])
def test_a_connection_lost_before_the_answer_is_retried(client, upstream, model, fault):
    script = upstream.script(model, [fault], says("Hi"))
    assert read(client.post("/v1/messages", json=ask(model, stream=True))).text == "Hi"
    assert len(script.requests) >= 2
    upstream.script(model, [fault])
    response = client.post("/v1/messages", json=ask(model, stream=True))
    assert error_of(response)[:2] == (502, "api_error")
    assert response.headers["x-athena-error"] == "upstream_reset"


@pytest.mark.parametrize("fault", [Reset, Close])
def test_a_connection_lost_in_the_middle_is_an_error_not_an_end(client, upstream, model, fault):
    script = upstream.script(model, reply(chunk({"content": "so far"}), fault, ends=False))
    seen = read(client.post("/v1/messages", json=ask(model, stream=True)))
    assert (seen.text, seen.stop, seen.error) == ("so far", None, "overloaded_error")
    assert len(script.requests) == 1
    assert error_of(client.post("/v1/messages", json=ask(model)))[0] == 502


def test_a_clean_end_without_a_finish_reason_is_an_error(client, upstream, model):
    upstream.script(model, reply(chunk({"content": "so far"})))
    seen = read(client.post("/v1/messages", json=ask(model, stream=True)))
    assert (seen.stop, seen.error) == (None, "overloaded_error")


def test_a_missing_endpoint_is_not_taken_for_one_of_the_gateway(client, upstream, model):
    """N1: a base URL without its version; FastAPI says only `Not Found`."""
    upstream.script(model, whole({"detail": "Not Found"}, 404))
    response = client.post("/v1/messages", json=ask(model))
    assert error_of(response)[:2] == (404, "not_found_error")
    assert re.fullmatch(r"the upstream \S+ returned HTTP 404: Not Found", error_of(response)[2])


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ({"detail": "busy"}, "an error instead of an answer: busy"),
        ({"hello": 1}, 'JSON that is not an answer: {"hello": 1}'),
    ],
)
@pytest.mark.parametrize("streaming", [True, False])
def test_the_upstream_that_sent_no_answer_is_named(
    client, upstream, model, document, what, streaming
):
    upstream.script(model, whole(document))
    message = error_of(client.post("/v1/messages", json=ask(model, stream=streaming)))[2]
    assert re.match(rf"The upstream \w+ sent {re.escape(what)}", message), message


def test_plain_http_at_an_https_address_is_not_called_unreachable(gateway, client):
    """N1: the server closes the connection, because the TLS handshake is not a request."""
    with closing(create_server(("127.0.0.1", 0))) as server:

        def hang_up():
            while True:
                try:
                    server.accept()[0].close()  # with unread data: a reset
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        port = server.getsockname()[1]
        gateway.edit(
            f"u = Upstream.objects.create(name='tls-only', base_url='https://127.0.0.1:{port}/v1')\n"
            "ModelRoute.objects.create(pattern='tls-model', upstream=u)"
        )
        response = client.post("/v1/messages", json=ask("tls-model"))
    assert error_of(response)[:2] == (502, "api_error")
    assert "closed it at once. Does it speak TLS?" in error_of(response)[2]


def test_an_unreachable_upstream_is_reported(gateway, client):
    with refused() as port:
        gateway.edit(
            f"u = Upstream.objects.create(name='gone', base_url='http://127.0.0.1:{port}/v1')\n"
            "n = Upstream.objects.create("
            "name='nameless', base_url='http://no-such-host.invalid/v1')\n"
            "ModelRoute.objects.create(pattern='gone-model', upstream=u)\n"
            "ModelRoute.objects.create(pattern='nameless-model', upstream=n)"
        )
        response = client.post("/v1/messages", json=ask("gone-model"))
    assert error_of(response) == (502, "api_error", "the upstream gone cannot be reached")
    assert response.headers["x-athena-error"] == "upstream_unreachable"
    response = client.post("/v1/messages", json=ask("nameless-model"))
    assert response.headers["x-athena-error"] == "upstream_dns"
    assert "invalid" not in error_of(response)[2]


def test_a_fallback_route_answers_when_the_first_fails(gateway, client, upstream):
    gateway.edit(
        "u = Upstream.objects.get(name='openrouter')\n"
        "second = ModelRoute.objects.create(pattern='second', upstream=u, upstream_model='test/second')\n"
        "ModelRoute.objects.create(pattern='first', upstream=u, upstream_model='test/first', fallback=second)"
    )
    first = upstream.script("test/first", whole({"error": {"message": "no"}}, 500))
    second = upstream.script("test/second", says("from the second"))
    seen = read(client.post("/v1/messages", json=ask("first", stream=True)))
    assert seen.text == "from the second"
    assert (len(first.requests), len(second.requests)) == (1, 1)
    upstream.script("test/first", whole({"error": {"message": "bad"}}, 400))
    assert error_of(client.post("/v1/messages", json=ask("first")))[0] == 400


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "no credit", "code": 402}},
        {"object": "error", "message": "no", "code": 400},
        {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
    ],
)
def test_an_error_with_status_200_is_an_error(client, upstream, model, body, streaming):
    upstream.script(model, whole(body))
    response = client.post("/v1/messages", json=ask(model, stream=streaming))
    assert error_of(response)[0] >= 400


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("content_type", ["text/plain", "text/html", "application/json", "x", ""])
@pytest.mark.parametrize("before", [[], [b"\n"], [b"\xef\xbb\xbf"]])
def test_the_kind_of_an_answer_is_recognized_by_its_first_bytes(
    client, upstream, model, streaming, content_type, before
):
    message = {"role": "assistant", "content": "Hi"}
    document = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    for body in (document, stream(message)):
        upstream.script(model, reply(*before, body, content_type=content_type))
        response = client.post("/v1/messages", json=ask(model, stream=streaming))
        text = read(response).text if streaming else response.json()["content"][0]["text"]
        assert text == "Hi"
    upstream.script(model, reply(b'{"error":{"message":"broken"}}', content_type=content_type))
    response = client.post("/v1/messages", json=ask(model, stream=streaming))
    assert error_of(response) == (502, "api_error", "broken")


def test_a_redirect_is_not_followed(client, upstream, model):
    script = upstream.script(model, whole({}, 307, ["location: http://169.254.169.254/"]))
    response = client.post("/v1/messages", json=ask(model))
    assert error_of(response)[0] == 502
    assert response.headers["x-athena-error"] == "upstream_redirect"
    assert len(script.requests) == 1


def test_a_compressed_answer_is_refused(client, upstream, model):
    upstream.script(model, reply(b"\x1f\x8b", headers=["content-encoding: gzip"]))
    response = client.post("/v1/messages", json=ask(model))
    assert (error_of(response)[0], response.headers["x-athena-error"]) == (502, "upstream_encoding")


def test_garbage_instead_of_http_is_an_error(client, upstream, model):
    upstream.script(model, [b"\x16\x03\x01 no http at all\r\n\r\n", Close])
    response = client.post("/v1/messages", json=ask(model))
    assert (error_of(response)[0], response.headers["x-athena-error"]) == (502, "upstream_protocol")


BAD_BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"model":"m"}',
    b'{"model":1,"messages":[]}',
    b"\xff\xfe",
    b'{"a":' * 5000,
]


@pytest.mark.parametrize("body", BAD_BODIES)
def test_an_unreadable_body_gets_400_in_the_shape_of_anthropic(client, body):
    response = client.post("/v1/messages", content=body)
    assert error_of(response)[:2] == (400, "invalid_request_error")


def test_a_malformed_request_names_the_place(client, model):
    bad = ask(model) | {"messages": [{"role": "user", "content": [{"type": "text"}]}]}
    assert "messages.0.content.0.text" in error_of(client.post("/v1/messages", json=bad))[2]


def test_a_result_of_an_unknown_call_names_its_id(client, model):
    result = {"type": "tool_result", "tool_use_id": "call_gone", "content": "x"}
    bad = ask(model) | {"messages": [{"role": "user", "content": [result]}]}
    status, _, message = error_of(client.post("/v1/messages", json=bad))
    assert (status, "call_gone" in message) == (400, True)


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_over_the_limit_gets_413(gateway, client, declared):
    body = b"x" * (32 * 1024 * 1024 + 1)
    content = body if declared else iter([body])
    response = client.post("/v1/messages", content=content)
    assert error_of(response)[:2] == (413, "request_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/messages", 405),
        ("PUT", "/v1/messages", 405),
        ("OPTIONS", "/v1/messages", 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/v1/messages/", 404),
        ("POST", "/v1/nothing", 404),
        ("GET", "/v1/", 404),
        ("GET", "/v1", 404),
        ("POST", "/messages", 404),
        ("POST", "/responses", 404),
    ],
)
@pytest.mark.parametrize("is_anthropic", [True, False])
def test_framework_errors_are_json_in_the_clients_dialect(
    gateway, method, path, status, is_anthropic
):
    headers = {"x-api-key": KEY} if is_anthropic else {"authorization": f"Bearer {KEY}"}
    response = httpx.request(method, gateway.url + path, headers=headers)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    if is_anthropic or "/messages" in path:
        assert body["type"] == "error"
        assert body["request_id"] == response.headers["request-id"]
    else:
        assert set(body["error"]) >= {"message", "type"}
    if status == 405:
        assert response.headers["allow"]


def test_a_path_that_does_not_exist_is_answered_with_those_that_do(client):
    for path in ("/v1/responses", "/responses"):
        message = error_of(client.post(path, json={}))[2]
        assert message.startswith(f"there is nothing at {path}. The endpoints are /v1/messages, ")
        for endpoint in ENDPOINTS:
            assert client.put(endpoint).status_code == 405, "exists"
            assert endpoint in message
    message = error_of(client.post("/messages", json={}))[2]
    assert "there is nothing at /messages. Add /v1 to the base URL, for /v1/messages" in message


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("content", [b"", b" \n"])
def test_an_empty_body_is_named(client, path, content):
    response = client.post(path, content=content)
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith("the body is empty: send the request as JSON")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=" + "9" * 6000, 200),
        ("limit=%FF&after_id=%00", 200),
        ("&".join(f"a{n}=1" for n in range(2000)), 400),
    ],
)
def test_an_absurd_query_is_not_an_internal_error(client, query, status):
    response = client.get(f"/v1/models?{query}")
    assert response.status_code == status
    if status == 400:
        assert error_of(response)[1] == "invalid_request_error"


def test_a_compressed_request_is_refused(client, model):
    response = client.post("/v1/messages", json=ask(model), headers={"content-encoding": "gzip"})
    assert error_of(response)[0] == 415


KEYS = {
    "unknown": {"x-api-key": "sk-athena-no-such-key"},
    "expired": {"x-api-key": "sk-athena-expired-key-1234"},
    "revoked": {"x-api-key": "sk-athena-revoked-key-1234"},
}


def test_unknown_expired_and_revoked_keys_get_the_same_401(gateway, model):
    gateway.edit(
        "from datetime import datetime, UTC\n"
        "for name in ('expired', 'revoked'):\n"
        "    key = ClientKey(label=name); key.adopt(f'sk-athena-{name}-key-1234')\n"
        '    setattr(key, f\'{"expires" if name == "expired" else "revoked"}_at\', datetime(2020, 1, 1, tzinfo=UTC))\n'
        "    key.save()"
    )
    seen = set()
    for headers in KEYS.values():
        response = httpx.post(f"{gateway.url}/v1/messages", json=ask(model), headers=headers)
        body = response.json()
        body["error"]["message"] = error_of(response)[2]  # without the request's id
        del body["request_id"]
        kept = ("x-should-retry", "www-authenticate", "x-athena-error", "content-type")
        seen.add((response.status_code, json.dumps(body), *(response.headers[k] for k in kept)))
    assert len(seen) == 1
    assert next(iter(seen))[0] == 401
    assert next(iter(seen))[2] == "false"


def test_two_different_keys_at_once_are_refused(gateway, model):
    headers = {"x-api-key": KEY, "authorization": "Bearer sk-athena-another"}
    response = httpx.post(f"{gateway.url}/v1/messages", json=ask(model), headers=headers)
    assert error_of(response)[0] == 400
    assert response.headers["x-athena-error"] == "ambiguous_credentials"


def test_a_key_may_be_limited_to_models(gateway, upstream, model):
    upstream.script(model, says("Hi"))
    gateway.edit(
        "key = ClientKey(label='limited', allowed_models=['test/*']); key.adopt('sk-athena-limited-key-1')\n"
        "key.save()"
    )
    headers = {"x-api-key": "sk-athena-limited-key-1"}
    url = f"{gateway.url}/v1/messages"
    assert httpx.post(url, json=ask(model), headers=headers).status_code == 200
    response = httpx.post(url, json=ask("claude-opus-4-8"), headers=headers)
    assert error_of(response)[:2] == (403, "permission_error")
    listed = httpx.get(f"{gateway.url}/v1/models", headers=headers).json()["data"]
    assert all(entry["id"].startswith("test/") for entry in listed)


def test_an_exceeded_buffer_is_a_transformation_error(gateway, client, upstream):
    edit = "s = FormatSettings.objects.get(format='qwen'); s.buffer_limit = {}; s.save()"
    model = "qwen/qwen3-buffer"
    text = (
        '<tool_call>{"arguments": {"harbor": "' + "x" * 5000 + '"}, "name": "get_tide"}</tool_call>'
    )
    upstream.script(
        model, reply(*(chunk({"content": text[at : at + 100]}) for at in range(0, 5100, 100)))
    )
    gateway.edit(edit.format(1024))
    try:
        response = client.post("/v1/messages", json=ask(model, tools=TOOLS))
    finally:
        gateway.edit(edit.format(2**20))
    status, kind, message = error_of(response)
    assert (status, kind) == (502, "format_transformation_error")
    assert "held_chars of 1024" in message
