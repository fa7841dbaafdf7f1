"""Handler, probes and unexpected errors, without a server."""

import asyncio
import json
import logging
from time import monotonic
from types import SimpleNamespace

import pytest
from django.http import HttpResponse

from proxy.configuration.live import Configuration
from proxy.http.request_limits import RequestLimits
from proxy.serving import admission
from proxy.serving import handler as handler_module
from proxy.serving.error_response import error_response
from proxy.serving.handler import GatewayHandler, endpoint
from proxy.serving.request import GatewayRequest
from proxy.serving.runtime import runtime
from proxy.serving.views import converse, count_tokens, healthz, readyz


def scope(path="/v1/messages", **headers):
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
    }


def call(handler, scope, *messages):
    """Call the handler and return the ASGI messages that it sends."""
    sent = []

    async def main():
        queue = asyncio.Queue()
        for message in messages or ({"type": "http.request", "body": b"{}"},):
            queue.put_nowait(message)

        async def send(message):
            sent.append(message)

        await asyncio.wait_for(handler(scope, queue.get, send), 60)

    asyncio.run(main())
    return sent


@endpoint("POST", reads_body=True)
async def echo(request):
    return HttpResponse(request.body)


def make_handler(on_end=lambda *_: None):
    return GatewayHandler(
        limits=lambda: RequestLimits(max_body_bytes=1000, request_timeout=0.1),
        error_response=error_response,
        on_end=on_end,
        uploads=set(),
    )


@pytest.fixture
def handler(monkeypatch):
    """A handler whose only view needs no key and returns the request's body."""
    match = SimpleNamespace(func=echo, args=(), kwargs={})
    monkeypatch.setattr(handler_module, "_resolve", lambda path: match)
    return make_handler()


def test_healthz_checks_nothing():
    start, body = call(make_handler(), scope("/healthz") | {"method": "GET"})
    assert (start["status"], body["body"]) == (200, b'{"status":"ok"}')
    assert asyncio.run(healthz(GatewayRequest(scope("/healthz")))).status_code == 200


@pytest.mark.parametrize(
    ("age", "is_away", "status", "degraded"),
    [
        (1, False, 200, []),
        (1, True, 200, ["database unreachable"]),
        (9, False, 200, ["database unreachable"]),  # the query hangs, so no error is known yet
        (590, True, 200, ["database unreachable"]),
        (601, True, 503, ["database unreachable"]),
    ],
)
def test_a_node_is_ready_without_its_database_for_ten_minutes(
    monkeypatch, age, is_away, status, degraded
):
    configuration = Configuration()
    configuration._snapshot = SimpleNamespace(version=7)
    configuration._refreshed_at, configuration._is_unavailable = monotonic() - age, is_away
    monkeypatch.setattr(runtime, "configuration", configuration)
    response = asyncio.run(readyz(GatewayRequest(scope("/readyz"))))
    body = json.loads(response.content)
    assert (response.status_code, body["degraded"]) == (status, degraded)
    assert body["configuration_version"] == 7
    assert body["status"] == ("ready" if status == 200 else "database unreachable")


def test_an_unexpected_error_is_a_500_without_details_and_is_logged(caplog):
    logging.getLogger("athena").propagate = True
    request = GatewayRequest(scope())
    with caplog.at_level(logging.ERROR):
        response = error_response(request, ValueError("canary of a defect"))
    logging.getLogger("athena").propagate = False
    body = json.loads(response.content)
    assert response.status_code == 500
    assert body["error"]["type"] == "api_error"
    assert body["request_id"] == request.exchange.request_id
    assert "canary" not in response.content.decode()
    assert "canary of a defect" in caplog.text


@pytest.mark.parametrize(
    ("path", "headers", "dialect"),
    [
        ("/v1/messages", {}, "anthropic"),
        ("/v1/chat/completions", {"x_api_key": "k"}, "openai"),
        ("/v1/models", {}, "openai"),
        ("/v1/models", {"anthropic_version": "2023-06-01"}, "anthropic"),
        ("/v1/models", {"x_api_key": "k"}, "anthropic"),
        ("/v1/models", {"user_agent": "claude-code/2.1.325"}, "anthropic"),
        ("/v1/models", {"user_agent": "OpenAI/Python 3"}, "openai"),
    ],
)
def test_the_dialect_is_known_before_the_body(path, headers, dialect):
    assert GatewayRequest(scope(path, **headers)).exchange.dialect == dialect


def test_a_disconnect_during_the_body_is_not_an_error(handler):
    part = {"type": "http.request", "body": b"{", "more_body": True}
    assert call(handler, scope(), part, {"type": "http.disconnect"}) == []


def test_a_body_that_exceeds_the_limit_is_refused_before_its_end(handler):
    part = {"type": "http.request", "body": b"x" * 600, "more_body": True}
    start, body = call(handler, scope(), part, part)
    assert start["status"] == 413
    assert json.loads(body["body"])["error"]["type"] == "request_too_large"


def test_a_body_that_does_not_arrive_times_out(handler):
    part = {"type": "http.request", "body": b"{", "more_body": True}
    start, body = call(handler, scope(), part)
    assert start["status"] == 408
    assert (b"connection", b"close") in [(k.lower(), v) for k, v in start["headers"]]
    assert json.loads(body["body"])["error"]["type"] == "timeout_error"
    assert not handler._uploads


@pytest.mark.parametrize("view", [converse, count_tokens])
def test_a_body_that_ends_after_a_drain_has_started_gets_503(monkeypatch, view):
    """The answer might be cut; another process can serve the whole of it."""
    key = SimpleNamespace(id=1, max_streams=None, requests_per_minute=None)
    snapshot = SimpleNamespace(request_limits=RequestLimits())
    match = SimpleNamespace(func=view, args=(), kwargs={})
    monkeypatch.setattr(handler_module, "_resolve", lambda path: match)
    monkeypatch.setattr(admission, "authenticate", lambda *_: key)
    monkeypatch.setattr(runtime.configuration, "_snapshot", snapshot)
    sent, parts = [], [b"{", b"}"]

    async def receive():
        if not parts:
            await asyncio.Event().wait()
        part = parts.pop(0)
        monkeypatch.setattr(runtime.drain, "is_draining", not parts)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    handler = make_handler(lambda exchange, status: release(exchange))
    asyncio.run(handler(scope(), receive, send))
    headers = dict(sent[0]["headers"])
    assert (sent[0]["status"], headers[b"x-athena-error"]) == (503, b"draining")
    assert headers[b"retry-after"] == b"2"


def release(exchange):
    runtime.quota.release(exchange)
    runtime.counting_quota.release(exchange)


def test_an_exchange_that_the_server_ends_is_not_a_success(handler, monkeypatch):
    ended, is_responding = [], asyncio.Event()

    async def respond_forever(self, match, request):
        is_responding.set()
        await asyncio.sleep(60)  # it is cancelled

    async def main():
        handler = make_handler(lambda exchange, status: ended.append(exchange.outcome))
        monkeypatch.setattr(GatewayHandler, "_respond", respond_forever)
        messages = asyncio.Queue()
        messages.put_nowait({"type": "http.request", "body": b"{}"})
        task = asyncio.create_task(handler(scope(), messages.get, None))
        await asyncio.wait_for(is_responding.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert ended == ["drained"]
