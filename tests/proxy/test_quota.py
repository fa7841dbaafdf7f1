"""A key's limits: so many requests in any minute, so many at once, and a place always given back."""

import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from proxy.errors import ErrorCode, GatewayError
from proxy.exchange import Exchange
from proxy.quota import Quota
from proxy.snapshot import Key
from tests.proxy.conversation import TOOLS, ask, chunk, error_of, reply, says
from tests.proxy.test_streaming import END, wait_for
from tests.proxy.upstream import Close, Pause, Reset, whole

MAKE_KEY = "k = ClientKey(label={0!r}, {1}); k.adopt({0!r}); k.save()"


def key_of(gateway, name, limits):
    gateway.edit(MAKE_KEY.format(name, limits))
    return gateway.client(**{"x-api-key": name})


def exchange_of(*, rpm=None, streams=None, number=1):
    exchange = Exchange("anthropic")
    exchange.key = Key(number, "a key", (), None, True, rpm, streams)
    return exchange


def admitted(quota, exchange):
    """The code with which it was refused, or an empty string."""
    try:
        quota.admit(exchange, exchange.key)
    except GatewayError as error:
        return str(error.code)
    return ""


@pytest.fixture
def clock(monkeypatch):
    """The seconds that have passed, in a list of one."""
    seconds = [1000.0]
    monkeypatch.setattr("proxy.quota.monotonic", lambda: seconds[0])
    return seconds


def test_any_minute_has_as_many_requests_as_the_limit_and_no_more(clock):
    quota, moments = Quota(), []
    for _ in range(2000):
        clock[0] += random.expovariate(1 / 2)
        if not admitted(quota, exchange_of(rpm=10)):
            moments.append(clock[0])
    assert all(later - first >= 60 for first, later in zip(moments, moments[10:], strict=False))
    assert len(moments) > 600  # about as many as are allowed


def test_who_waits_as_long_as_the_refusal_says_is_admitted(clock):
    quota = Quota()
    for _ in range(5):
        assert not admitted(quota, exchange_of(rpm=5))
        clock[0] += 7.5
    with pytest.raises(GatewayError) as refused:
        quota.admit(exchange_of(), exchange_of(rpm=5).key)
    assert refused.value.code is ErrorCode.KEY_RATE_LIMIT
    assert refused.value.retry_after == 60 - 37
    clock[0] += refused.value.retry_after
    assert not admitted(quota, exchange_of(rpm=5))
    assert admitted(quota, exchange_of(rpm=5)) == "key_rate_limit"


def test_a_limit_that_is_lowered_counts_what_was_asked_before(clock):
    quota = Quota()
    for _ in range(8):
        clock[0] += 1
        assert not admitted(quota, exchange_of(rpm=10))
    with pytest.raises(GatewayError) as refused:
        quota.admit(exchange_of(), exchange_of(rpm=3).key)
    assert refused.value.retry_after == 60 - 2  # until the sixth of the eight is a minute old
    assert not admitted(quota, exchange_of(rpm=10))
    assert not admitted(quota, exchange_of(rpm=3, number=2)), "another key has its own"


def test_a_limit_of_zero_that_came_past_the_admin_refuses_all():
    assert admitted(Quota(), exchange_of(rpm=0)) == "key_rate_limit"
    assert admitted(Quota(), exchange_of(streams=0)) == "key_busy"


def test_a_place_is_given_back_once_and_a_refused_request_has_none(clock):
    quota = Quota()
    one, two, three = [exchange_of(rpm=3, streams=2) for _ in range(3)]
    assert [admitted(quota, one), admitted(quota, two)] == ["", ""]
    assert admitted(quota, three) == "key_busy"
    for _ in range(2):
        quota.release(three)
        quota.release(one)
    assert quota.open == 1
    assert not admitted(quota, three), "the refusal did not count as a request"
    quota.release(two)
    quota.release(three)
    assert quota.open == 0
    quota.release(Exchange("openai"))  # one that has no key


def test_more_requests_than_a_minute_may_have_are_refused_and_audited(gateway, upstream, model):
    upstream.script(model, says("Hi"))
    with key_of(gateway, "sk-athena-limited", "requests_per_minute=2") as client:
        assert client.get("/v1/models").status_code == 200
        count = client.post("/v1/messages/count_tokens", json=ask(model))
        assert count.status_code == 200, "only conversations are counted"
        assert client.post("/v1/messages", json=ask(model)).status_code == 200
        chat = client.post("/v1/chat/completions", json=ask(model))
        assert chat.status_code == 200, "both endpoints are"
        refused = client.post("/v1/messages", json=ask(model, stream=True))
        assert error_of(refused)[:2] == (429, "rate_limit_error")
        assert refused.headers["x-athena-error"] == "key_rate_limit"
        assert refused.headers["x-athena-error-source"] == "client"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "x-should-retry" not in refused.headers
        row = gateway.exchange(refused)
        assert (row["outcome"], row["status"]) == ("client_error", 429)
        assert (row["error_code"], row["error_source"]) == ("key_rate_limit", "client")
        refused = client.post("/v1/chat/completions", json=ask(model))
        assert refused.json()["error"]["code"] == "rate_limit_error"
        with gateway.client() as other:
            assert other.post("/v1/messages", json=ask(model)).status_code == 200
        gateway.edit(
            "k = ClientKey.objects.get(label='sk-athena-limited'); k.requests_per_minute = 3;"
            " k.save()"
        )
        assert client.post("/v1/messages", json=ask(model)).status_code == 200
        assert client.post("/v1/messages", json=ask(model)).status_code == 429


def test_open_answers_stay_counted_when_the_limit_is_edited(gateway, upstream, model):
    upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))
    body = ask(model, stream=True)
    with ExitStack() as streams, key_of(gateway, "sk-athena-narrow", "max_streams=2") as client:
        for _ in range(2):
            response = streams.enter_context(client.stream("POST", "/v1/messages", json=body))
            assert response.status_code == 200
        refused = client.post("/v1/messages", json=body)
        assert error_of(refused)[:2] == (429, "rate_limit_error")
        assert refused.headers["x-athena-error"] == "key_busy"
        assert refused.headers["retry-after"] == "1"
        assert gateway.exchange(refused)["outcome"] == "client_error"
        edit = "k = ClientKey.objects.get(label='sk-athena-narrow'); k.max_streams = {}; k.save()"
        gateway.edit(edit.format(3))
        response = streams.enter_context(client.stream("POST", "/v1/messages", json=body))
        assert response.status_code == 200
        gateway.edit(edit.format(1))
        refused = client.post("/v1/messages", json=body)
        assert "answered at once, and 3 are" in error_of(refused)[2]
        streams.close()
        upstream.script(model, says("Hi"))
        wait_for(lambda: client.post("/v1/messages", json=body).status_code == 200)


def test_after_a_thousand_random_ends_no_place_is_lost(gateway, upstream, model):
    """Clients that leave at any moment, upstreams that fail in any way, requests that are wrong."""
    key, most = "sk-athena-of-a-crowd", 6
    endings = [
        [END],
        [Pause(0.01), END],
        [Pause(0.05), chunk({"content": "more"}), END],
        [Pause(0.02), Reset],
        [Close],
        [b"data: {nonsense\n\n"],
        [Pause(5)],
    ]
    answers = [reply(chunk({"content": "one"}), *random.choice(endings)) for _ in range(200)]
    refusals = [whole({"error": {"message": "no"}}, status) for status in (400, 404, 429, 500)]
    upstream.script(model, *random.sample([*answers, *refusals * 20], 280), says("Hi"))

    def ask_and_leave(number):
        chance = random.Random(number)
        fields = {"stream": chance.random() < 0.7, "tools": TOOLS}
        body = json.dumps(ask(model, **fields) if chance.random() < 0.9 else {}).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: {len(body)}\r\n\r\n"
        data = head.encode() + body
        sent = len(data) if chance.random() < 0.8 else chance.randrange(len(data))
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as connection:
            connection.sendall(data[:sent])
            if sent == len(data) and chance.random() < 0.8:
                connection.settimeout(chance.random() * 0.05 + 0.0001)
                try:
                    while connection.recv(4096) and chance.random() < 0.7:
                        pass
                except TimeoutError:
                    pass

    with key_of(gateway, key, f"max_streams={most}") as client, ThreadPoolExecutor(8) as crowd:
        list(crowd.map(ask_and_leave, range(1000)))
        upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))

        def opened():
            """How many may be open at once."""
            with ExitStack() as streams:
                for number in range(most + 1):
                    stream = client.stream("POST", "/v1/messages", json=ask(model, stream=True))
                    if streams.enter_context(stream).status_code != 200:
                        return number
            return most + 1

        wait_for(lambda: opened() == most, 10)
        assert opened() <= most
    # Had places been lost, all but a few would have been refused for it.
    rows = gateway.rows(
        "SELECT error_code FROM proxy_exchange JOIN proxy_clientkey k ON k.id = key_id"
        " WHERE k.label = ?",
        key,
    )
    assert len(rows) > 200  # those that left before they were heard have no row
    assert sum(row["error_code"] == "key_busy" for row in rows) < len(rows) / 2
