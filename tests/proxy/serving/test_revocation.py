"""Revoking a key ends its open answers with an error; expiry lets them finish."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.support.chat import ask, chunk, error_of, reply, stream
from tests.support.client_keys import key_of
from tests.support.raw_client import answer, connect, post
from tests.support.scripted_upstream import Pause
from tests.support.waiting import wait_for

REVOKE = (
    "from django.utils import timezone\n"
    "from proxy.configuration.client_keys import revoke\n"
    "revoke(ClientKey.objects.get(label={!r}), timezone.now())"
)
EXPIRE = (
    "from django.utils import timezone\n"
    "k = ClientKey.objects.get(label={!r}); k.expires_at = timezone.now(); k.save()"
)


@pytest.fixture
def script(upstream, model):
    """Answers that take half a minute; every one is aborted before its end."""
    parts = [part for _ in range(60) for part in (chunk({"content": "word "}), Pause(0.5))]
    script = upstream.script(model, reply(*parts, stream({"content": "end"})))
    yield script
    wait_for(lambda: all(request.closed_at for request in script.requests))


def opened(stack, client, model):
    """Open a stream and read until its text has started; return the response and its lines."""
    request = client.stream("POST", "/v1/messages", json=ask(model, stream=True))
    response = stack.enter_context(request)
    assert response.status_code == 200
    lines = response.iter_lines()
    assert any("word" in line for line in lines)
    return response, lines


def test_open_streams_of_a_revoked_key_end_in_an_error_and_others_go_on(
    gateway, client, model, script
):
    name = "sk-athena-soon-revoked"
    with ExitStack() as stack:
        theirs = stack.enter_context(key_of(gateway, name, "max_streams=None"))
        response, lines = opened(stack, theirs, model)
        _, others = opened(stack, client, model)
        gateway.edit(REVOKE.format(name))
        last = [line for line in lines if line][-4:]
        assert [line for line in last if line.startswith("event: ")] == [
            "event: error",
            "event: message_stop",
        ]
        assert "authentication_error" in last[1]
        assert "this client key was revoked" in last[1]
        row = gateway.exchange(response)
        assert (row["status"], row["outcome"]) == (200, "client_error")
        assert row["error_code"] == "key_revoked"
        assert theirs.post("/v1/messages", json=ask(model)).status_code == 401
        assert any("word" in line for line in others)


def test_a_request_of_a_revoked_key_that_waits_for_its_answer_gets_401(gateway, model, script):
    name = "sk-athena-revoked-meanwhile"
    with key_of(gateway, name, "max_streams=None") as client, ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.post, "/v1/messages", json=ask(model))
        wait_for(lambda: script.requests)
        gateway.edit(REVOKE.format(name))
        refused = waiting.result(60)
    assert error_of(refused) == (401, "authentication_error", "this client key was revoked")
    assert refused.headers["x-athena-error"] == "key_revoked"
    assert refused.headers["x-should-retry"] == "false"


def test_open_streams_of_an_expired_key_go_on(gateway, model, script):
    name = "sk-athena-soon-over"
    with ExitStack() as stack:
        client = stack.enter_context(key_of(gateway, name, "max_streams=None"))
        _, lines = opened(stack, client, model)
        gateway.edit(EXPIRE.format(name))
        assert client.post("/v1/messages", json=ask(model)).status_code == 401
        assert any("word" in line for line in lines)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_key_that_is_revoked_while_its_body_arrives_gets_401(gateway, upstream, model, path):
    name = f"sk-athena-revoked-in-{path.rpartition('/')[2]}"
    upstream.script(model, reply(stream({"content": "secret"})))
    with key_of(gateway, name, "max_streams=None"):
        request = post(ask(model), path=path, key=name)
        with connect(gateway.port, request[:-1]) as connection:
            gateway.edit(REVOKE.format(name))
            connection.sendall(request[-1:])
            refused = answer(connection)
    assert (refused.status, refused.code) == (401, "invalid_key")
