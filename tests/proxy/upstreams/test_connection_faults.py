"""Upstreams that are unreachable or untrusted, or that close connections between requests."""

import json
import socket
import threading
import time

import pytest

from tests.support.certificates import BAD
from tests.support.chat import ask, chunk, error_of, read, reply, says
from tests.support.faulty_upstreams import PATHS
from tests.support.scripted_upstream import Close, Pause, Reset, ScriptedUpstream, syns, whole
from tests.support.waiting import wait_for


def status_and_code(response):
    """Also check that the message does not disclose the upstream's address."""
    body = response.json()
    assert "127.0.0.1" not in response.text
    assert "invalid" not in body["error"]["message"]
    return response.status_code, response.headers["x-athena-error"]


@pytest.mark.parametrize("dialect", PATHS)
def test_a_refused_connection_is_502_after_one_retry(either, dialect):
    with syns(either.ports["refused"]) as count:
        response = either.post("faulty-refused-model", dialect)
        assert status_and_code(response) == (502, "upstream_unreachable")
        assert count is None or count() == 2
    assert either.row(response) == ("upstream_error", "connect", "upstream_unreachable", 502)
    attempts = either.gateway.exchange(response)["attempts"]
    assert [code for _, _, code, _ in attempts] == [
        "upstream_unreachable"
    ]  # the last attempt is not listed


def test_an_unresolvable_name_is_502_and_is_not_disclosed(either):
    response = either.post("faulty-nameless-model")
    assert status_and_code(response) == (502, "upstream_dns")
    assert either.row(response) == ("upstream_error", "connect", "upstream_dns", 502)


@pytest.mark.parametrize("kind", [*BAD, "plaintext"])
def test_an_untrusted_certificate_is_502_without_a_retry(either, kind):
    response = either.post(f"faulty-{kind}-model")
    assert status_and_code(response) == (502, "upstream_tls")
    assert either.row(response) == ("upstream_error", "connect", "upstream_tls", 502)
    assert either.gateway.exchange(response)["attempts"] == []


def test_a_private_certificate_authority_is_trusted_through_ssl_cert_file(either):
    script = either.trusted.script("faulty-good-model", says("over TLS"))
    assert read(either.post("faulty-good-model", stream=True)).text == "over TLS"
    assert script.last.json["model"] == "faulty-good-model"


def test_an_upstream_that_does_not_accept_is_504_after_the_connect_timeout(either):
    start = time.monotonic()
    response = either.post("faulty-blackhole-model")
    assert time.monotonic() - start >= 0.9
    assert status_and_code(response) == (504, "upstream_connect_timeout")
    assert error_of(response)[1] == "timeout_error"
    assert either.row(response) == ("timeout", "connect", "upstream_connect_timeout", 504)
    assert either.gateway.exchange(response)["attempts"] == []


def test_a_connection_closed_between_requests_is_replaced_without_an_error(either):
    answer = says("Hi")
    model, script = either.script("test/stale", [*answer, Close], [*answer, Pause(0.1), Close])
    for _ in range(4):
        response = either.post(model, stream=True)
        assert read(response).text == "Hi"
        assert either.gateway.exchange(response)["attempts"] == []
        time.sleep(0.15)  # every other time the upstream closes only now
    assert len(script.requests) == 4


def test_informational_responses_are_skipped(either):
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    model, _ = either.script("test/early", [early, Pause(0.1), *says("Hi")])
    response = either.post(model, stream=True)
    assert read(response).text == "Hi"
    assert "link" not in response.headers


@pytest.fixture
def hasty():
    """Server that answers 413 before it reads the body, which it never does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stopped = threading.Event()

        def serve():
            while not stopped.is_set():
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(30)
                    head = b""
                    while b"\r\n\r\n" not in head and (part := connection.recv(4096)):
                        head += part
                    body = json.dumps({"error": {"message": "far too large"}}).encode()
                    status = b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: %d"
                    connection.sendall(status % len(body) + b"\r\n\r\n" + body)
                    stopped.wait(30)  # closing at once would discard the answer

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        stopped.set()
        socket.create_connection(listening.getsockname()).close()
        thread.join(30)


def test_an_error_response_sent_before_the_body_was_read_reaches_the_client(gateway, client, hasty):
    gateway.edit(
        f"u = Upstream.objects.create(name='hasty', base_url='http://127.0.0.1:{hasty}/v1')\n"
        "ModelRoute.objects.create(pattern='hasty-*', upstream=u)"
    )
    body = ask("hasty-model", "x" * 4_000_000)
    assert error_of(client.post("/v1/messages", json=body))[0] == 413


def test_an_upstream_is_retried_once_before_the_first_byte_and_never_after_it(either):
    # A separate upstream: replacing an idle connection of another test is not an attempt, so the
    # number of requests would depend on other tests.
    alone = ScriptedUpstream()
    either.gateway.edit(
        f"u = Upstream.objects.create(name='alone', base_url={alone.url!r})\n"
        "ModelRoute.objects.create(pattern='alone-*', upstream=u, priority=1)"
    )
    started = reply(chunk({"content": "one"}), ends=False)
    script = alone.script("alone-after", [*started, Close], says("never"))
    assert read(either.post("alone-after", stream=True)).text == "one"
    assert len(script.requests) == 1
    script = alone.script("alone-before", [Close], [Close], says("never"))
    response = either.post("alone-before", stream=True)
    assert status_and_code(response) == (502, "upstream_reset")
    assert len({request.peer for request in script.requests}) == len(script.requests) == 2
    assert either.row(response) == ("upstream_error", "answer", "upstream_reset", 502)


@pytest.fixture
def alone(either):
    """An upstream whose idle connections no other test has made. The routes of `lonely-loop` fall back
    to each other, and that of `lonely-twin` to another route of the same model."""
    server = ScriptedUpstream()
    either.gateway.edit(
        "Upstream.objects.filter(name='lonely').delete()\n"
        "u = Upstream.objects.create(name='lonely', service='anthropic', dialect='anthropic',"
        f" base_url={server.url!r})\n"
        "a, b = [ModelRoute.objects.create(pattern=p, upstream=u, upstream_model=m, priority=1)"
        " for p, m in (('lonely-loop-a', 'lonely-a'), ('lonely-loop-b', 'lonely-b'))]\n"
        "ModelRoute.objects.create(pattern='lonely-*', upstream=u, priority=2)\n"
        "a.fallback = b; a.save(); ModelRoute.objects.filter(pk=b.pk).update(fallback=a)\n"
        "same = ModelRoute.objects.create(pattern='twin', upstream=u, upstream_model='lonely-twin')\n"
        "ModelRoute.objects.create(pattern='lonely-twin', upstream=u, fallback=same, priority=1)"
    )
    yield server
    either.gateway.edit(
        "ModelRoute.objects.filter(upstream__name='lonely').update(fallback=None)\n"
        "ModelRoute.objects.filter(upstream__name='lonely').delete()"
    )


GREETING = whole(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
)
REFUSED_THINKING = whole(
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
        },
    },
    status=400,
)
SLOWLY = Pause(0.7)  # longer than an idle connection takes to report that it was closed


@pytest.mark.parametrize(
    "answers",
    [
        [[SLOWLY, Close]],
        [[SLOWLY, Reset], [Close]],
        [[b"HTTP/1.1 103 Early Hints\r\n\r\n", Close]],
        [[b"H", Close]],
        [[b"HTTP/1.1 200 OK\r\ncontent-le", Reset]],
        [REFUSED_THINKING, [Close]],
        [[SLOWLY, Close], REFUSED_THINKING],
        [REFUSED_THINKING],
    ],
)
@pytest.mark.parametrize("has_idle", [True, False])
def test_a_request_reaches_an_upstream_at_most_twice(either, alone, answers, has_idle):
    """W7."""
    if has_idle:
        alone.script("lonely-warm", GREETING)
        assert either.post("lonely-warm").status_code == 200
        time.sleep(0.1)  # until the connection may be reused
    script = alone.script("lonely-poison", *answers)
    turn = {"type": "thinking", "thinking": "Hm.", "signature": "foreign"}
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [turn, {"type": "text", "text": "Hi"}]},
        {"role": "user", "content": "Go on"},
    ]
    response = either.post("lonely-poison", messages=messages)
    assert response.status_code in (400, 502)
    assert len(script.requests) == 2


def test_a_connection_that_was_closed_while_idle_is_not_counted_as_an_attempt(either, alone):
    """W7: the close came at once, so the upstream has not read the request. Only once, though."""
    warm = alone.script("lonely-warm", GREETING)

    def takes_idle():
        assert either.post("lonely-warm").status_code == 200
        time.sleep(0.1)  # longer than a connection rests
        script = alone.script("lonely-stale", [Close])
        assert status_and_code(either.post("lonely-stale")) == (502, "upstream_reset")
        is_reused = script.requests[0].peer == warm.last.peer
        assert len(script.requests) == 2 + is_reused
        return is_reused

    if either.gateway.environment.get("ATHENA_TRANSPORT") == "httpx":
        assert not takes_idle()
    else:
        wait_for(takes_idle)  # on a busy machine a connection may rest for longer


@pytest.mark.parametrize("model", ["lonely-loop-a", "lonely-twin"])
def test_fallbacks_send_a_request_to_one_model_of_an_upstream_at_most_twice(either, alone, model):
    """W7: routes whose fallbacks form a circle, or lead to the same model."""
    scripts = {
        name: alone.script(name, [Pause(0.01), Close])
        for name in ("lonely-a", "lonely-b", "lonely-twin")
    }
    assert status_and_code(either.post(model)) == (502, "upstream_reset")
    expected = {"lonely-a": 2, "lonely-b": 2} if model == "lonely-loop-a" else {"lonely-twin": 2}
    assert {n: len(s.requests) for n, s in scripts.items() if s.requests} == expected


def test_a_suspected_upstream_is_reported_to_all_processes_and_gets_new_connections(either, alone):
    """W1. httpx's transport reuses no connection, so it has nothing to suspect."""
    gateway = either.gateway
    script = alone.script("lonely-late", [*GREETING, Pause(0.01), *GREETING], GREETING)
    assert either.post("lonely-late").json()["content"] == [{"type": "text", "text": "Hi"}]
    if gateway.environment.get("ATHENA_TRANSPORT") != "httpx":
        address = alone.url.removesuffix("/v1")

        def reported():
            rows = gateway.rows("SELECT suspected FROM proxy_gatewayprocess")
            return any(address in (row["suspected"] or {}) for row in rows)

        wait_for(reported)
        wait_for(lambda: f"{address} sent data after the end of an answer" in gateway.log)
    for _ in range(3):
        time.sleep(0.1)  # longer than a connection rests
        assert either.post("lonely-late").status_code == 200
    assert len({request.peer for request in script.requests}) == 4


def test_the_switch_of_an_upstream_gives_each_request_a_new_connection(either, alone):
    """W1."""
    either.gateway.edit(
        "u = Upstream.objects.get(name='lonely'); u.reuse_connections = False; u.save()"
    )
    script = alone.script("lonely-switch", GREETING)
    for _ in range(3):
        assert either.post("lonely-switch").status_code == 200
        time.sleep(0.1)
    assert len({request.peer for request in script.requests}) == 3
