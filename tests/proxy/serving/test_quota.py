"""Quotas of a node and a key: requests at once, requests per minute, and slots that are always freed."""

import asyncio
import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import Key
from proxy.errors import ErrorCode, GatewayError
from proxy.serving.quota import Quota
from tests.support.chat import END, TOOLS, ask, chunk, error_of, reply, says
from tests.support.client_keys import MAKE_KEY, key_of
from tests.support.metrics import scrape, value
from tests.support.raw_client import answer, connect, post
from tests.support.scripted_upstream import Close, Pause, Reset, whole
from tests.support.waiting import wait_for


def exchange_of(*, rpm=None, streams=None, number=1):
    exchange = Exchange("anthropic")
    exchange.request.key = Key(number, "a key", (), None, True, rpm, streams)
    return exchange


def admit(quota, exchange, max_streams=10_000):
    asyncio.run(quota.acquire(exchange, exchange.request.key, max_streams))


def refusal(quota, exchange, max_streams=10_000):
    """Return the code of the rejection; empty if the request is admitted."""
    try:
        admit(quota, exchange, max_streams)
    except GatewayError as error:
        return str(error.code)
    return ""


@pytest.fixture
def clock(monkeypatch):
    """A list whose only element is the current time in seconds."""
    seconds = [1000.0]
    monkeypatch.setattr("proxy.serving.rate.monotonic", lambda: seconds[0])
    return seconds


def test_no_minute_has_more_requests_than_the_limit(clock):
    quota, moments = Quota(), []
    for _ in range(2000):
        clock[0] += random.expovariate(1 / 2)
        if not refusal(quota, exchange_of(rpm=10)):
            moments.append(clock[0])
    assert all(later - first >= 60 for first, later in zip(moments, moments[10:], strict=False))
    assert len(moments) > 600  # close to the limit


def test_a_client_that_waits_for_retry_after_is_admitted(clock):
    quota = Quota()
    for _ in range(5):
        assert not refusal(quota, exchange_of(rpm=5))
        clock[0] += 7.5
    with pytest.raises(GatewayError) as refused:
        admit(quota, exchange_of(rpm=5))
    assert refused.value.code is ErrorCode.KEY_RATE_LIMIT
    assert refused.value.retry_after == 60 - 37
    clock[0] += refused.value.retry_after
    assert not refusal(quota, exchange_of(rpm=5))
    assert refusal(quota, exchange_of(rpm=5)) == "key_rate_limit"


def test_a_lowered_limit_counts_earlier_requests(clock):
    quota = Quota()
    for _ in range(8):
        clock[0] += 1
        assert not refusal(quota, exchange_of(rpm=10))
    with pytest.raises(GatewayError) as refused:
        admit(quota, exchange_of(rpm=3))
    assert refused.value.retry_after == 60 - 2  # until the sixth of the eight is a minute old
    assert not refusal(quota, exchange_of(rpm=10))
    assert not refusal(quota, exchange_of(rpm=3, number=2)), "another key has its own limit"


def test_a_limit_of_zero_refuses_every_request():
    assert refusal(Quota(), exchange_of(rpm=0)) == "key_rate_limit"
    assert refusal(Quota(), exchange_of(streams=0)) == "key_busy"


def test_a_slot_is_released_once_and_a_refused_request_has_none(clock):
    quota = Quota()
    one, two, three = [exchange_of(rpm=3, streams=2) for _ in range(3)]
    assert [refusal(quota, one), refusal(quota, two)] == ["", ""]
    assert refusal(quota, three) == "key_busy"
    for _ in range(2):
        quota.release(three)
        quota.release(one)
    assert quota.used_slots == 1
    assert not refusal(quota, three), "the refusal was counted as a request"
    quota.release(two)
    quota.release(three)
    assert quota.used_slots == 0
    quota.release(Exchange("openai"))  # an exchange without a key


def test_a_request_refused_for_its_rate_holds_no_slot():
    quota = Quota()
    assert refusal(quota, exchange_of(rpm=0)) == "key_rate_limit"
    assert quota.used_slots == 0


@pytest.mark.parametrize(
    ("max_streams", "processes", "slots"), [(3, 1, 3), (3, 2, 2), (500, 4, 125)]
)
def test_each_process_gets_its_share_of_the_slots_of_the_node(max_streams, processes, slots):
    quota = Quota(processes)
    exchanges = [exchange_of(number=number) for number in range(slots)]
    assert not any(refusal(quota, exchange, max_streams) for exchange in exchanges)
    assert refusal(quota, exchange_of(number=1000), max_streams) == "at_capacity"
    quota.release(exchanges[0])
    assert not refusal(quota, exchange_of(number=1000), max_streams)


def test_requests_above_the_limit_of_the_node_get_503_with_retry_after(gateway, upstream, model):
    upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))
    body = ask(model, stream=True)
    edit = "s = GatewaySettings.objects.get(); s.max_streams = {}; s.save()"
    gateway.edit(edit.format(2))
    try:
        with ExitStack() as streams, gateway.client() as client:
            for _ in range(2):
                response = streams.enter_context(client.stream("POST", "/v1/messages", json=body))
                assert response.status_code == 200
            wait_for(lambda: value(scrape(gateway.url), "athena_held_places") == 2)
            refused = client.post("/v1/messages", json=body)
            assert error_of(refused)[:2] == (503, "overloaded_error")
            assert refused.headers["x-athena-error"] == "at_capacity"
            assert refused.headers["x-athena-error-source"] == "gateway"
            assert refused.headers["retry-after"] == "1"
            assert "x-should-retry" not in refused.headers
            assert gateway.exchange(refused)["outcome"] == "gateway_error"
            chat = client.post("/v1/chat/completions", json=body)
            assert (chat.status_code, chat.headers["x-athena-error"]) == (503, "at_capacity")
            assert client.get("/healthz").status_code == 200
            assert client.get("/v1/models").status_code == 200
    finally:
        gateway.edit(edit.format(500))
    wait_for(lambda: value(scrape(gateway.url), "athena_held_places") == 0)


def test_a_key_without_limits_uses_those_of_the_gateway(gateway, upstream, model):
    edit = (
        "s = GatewaySettings.objects.get(); s.key_max_streams = {};"
        " s.key_requests_per_minute = {}; s.save()"
    )
    keys = [
        MAKE_KEY.format("sk-athena-plain", ""),
        MAKE_KEY.format("sk-athena-of-its-own", "requests_per_minute=1000, max_streams=2"),
    ]
    gateway.edit("\n".join([*keys, edit.format(1, 2)]))
    body = ask(model, stream=True)
    seen = {}
    try:
        for key in ("sk-athena-plain", "sk-athena-of-its-own"):
            with gateway.client(**{"x-api-key": key}) as client:
                upstream.script(model, reply(chunk({"content": "one"}), Pause(20)), says("Hi"))
                with client.stream("POST", "/v1/messages", json=body) as stream:
                    assert stream.status_code == 200
                    codes = [client.post("/v1/messages", json=body)]
                wait_for(lambda: value(scrape(gateway.url), "athena_held_places") == 0)
                codes += [client.post("/v1/messages", json=body) for _ in range(2)]
                seen[key] = [response.headers.get("x-athena-error") for response in codes]
    finally:
        gateway.edit(edit.format(32, None))
    assert seen == {
        "sk-athena-plain": ["key_busy", None, "key_rate_limit"],
        "sk-athena-of-its-own": [None, None, None],
    }


def test_requests_above_the_rate_limit_are_refused_and_audited(gateway, upstream, model):
    upstream.script(model, says("Hi"))
    with key_of(gateway, "sk-athena-limited", "requests_per_minute=2") as client:
        assert client.get("/v1/models").status_code == 200
        count = client.post("/v1/messages/count_tokens", json=ask(model))
        assert count.status_code == 200
        chat = client.post("/v1/chat/completions", json=ask(model))
        assert chat.status_code == 200, (
            "count_tokens was the first request, the list of models none"
        )
        refused = client.post("/v1/messages", json=ask(model, stream=True))
        assert error_of(refused)[:2] == (429, "rate_limit_error")
        assert refused.headers["x-athena-error"] == "key_rate_limit"
        assert refused.headers["x-athena-error-source"] == "client"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "x-should-retry" not in refused.headers
        row = gateway.exchange(refused)
        assert (row["outcome"], row["status"]) == ("client_error", 429)
        assert (row["error_code"], row["error_source"]) == ("key_rate_limit", "client")
        refused = client.post("/v1/messages/count_tokens", json=ask(model))
        assert refused.headers["x-athena-error"] == "key_rate_limit", (
            "counting tokens counts as a request"
        )
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


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_request_takes_its_slot_before_its_body_is_read(gateway, path):
    """Otherwise bodies could fill the memory that the limit on streams protects."""
    key = f"sk-athena-uploads{path.replace('/', '-')}"
    with key_of(gateway, key, "max_streams=1") as client:
        head = post(b"", "content-length: 1000000", path=path, key=key)
        with connect(gateway.port, head) as first, connect(gateway.port) as second:
            first.sendall(b" " * 100_000)
            wait_for(lambda: client.post(path, json={}).status_code == 429)
            second.sendall(head)
            refused = answer(second, patience=60)
            assert (refused.status, refused.code, refused.is_closed) == (429, "key_busy", True)
        wait_for(lambda: client.post(path, json={}).status_code == 400)
    wait_for(lambda: value(scrape(gateway.url), "athena_held_places") == 0)


def test_slow_unknown_callers_take_no_slot_and_probes_need_none(gateway, upstream, model):
    upstream.script(model, says("Hi"))
    edit = "s = GatewaySettings.objects.get(); s.max_streams = {}; s.save()"
    gateway.edit(edit.format(2))
    try:
        with ExitStack() as crowd, gateway.client() as client:
            for path in ("/v1/messages", "/v1/models", "/demo/v1/chat/completions", "/healthz"):
                head = post(b" ", "content-length: 1000000", path=path, key="unknown")
                for _ in range(10):
                    crowd.enter_context(connect(gateway.port, head))
            assert client.post("/v1/messages", json=ask(model)).status_code == 200
            mine = post(b" ", "content-length: 1000000")
            known = [crowd.enter_context(connect(gateway.port, mine)) for _ in range(2)]
            wait_for(lambda: value(scrape(gateway.url), "athena_held_places") == 2)
            refused = client.post("/v1/messages", json=ask(model))
            assert refused.headers["x-athena-error"] == "at_capacity"
            for path in ("/healthz", "/readyz", "/metrics", "/v1/models"):
                assert client.get(path).status_code == 200
            for connection in known:
                connection.close()
    finally:
        gateway.edit(edit.format(500))
    wait_for(lambda: value(scrape(gateway.url), "athena_held_places") == 0)


def test_open_answers_stay_counted_when_the_limit_is_edited(gateway, upstream, model):
    upstream.script(model, reply(chunk({"content": "one"}), Pause(120)))
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
        assert "has 3 open requests and is limited to 1" in error_of(refused)[2]
        streams.close()
        upstream.script(model, says("Hi"))
        wait_for(lambda: client.post("/v1/messages", json=body).status_code == 200)


def test_no_slot_is_lost_after_a_thousand_random_endings(gateway, upstream, model):
    """Clients disconnect at any moment, upstreams fail in any way, requests are invalid."""
    key, limit = "sk-athena-of-a-crowd", 6
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
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as connection:
            connection.sendall(data[:sent])
            if sent == len(data) and chance.random() < 0.8:
                connection.settimeout(chance.random() * 0.05 + 0.0001)
                try:
                    while connection.recv(4096) and chance.random() < 0.7:
                        pass
                except (TimeoutError, ConnectionError):
                    pass

    with key_of(gateway, key, f"max_streams={limit}") as client, ThreadPoolExecutor(8) as crowd:
        list(crowd.map(ask_and_leave, range(1000)))
        upstream.script(model, reply(chunk({"content": "one"}), Pause(20)))

        def opened():
            """Return how many requests can be open at once."""
            with ExitStack() as streams:
                for number in range(limit + 1):
                    stream = client.stream("POST", "/v1/messages", json=ask(model, stream=True))
                    if streams.enter_context(stream).status_code != 200:
                        return number
            return limit + 1

        wait_for(lambda: opened() == limit)
        assert opened() <= limit
    wait_for(lambda: value(scrape(gateway.url), "athena_held_places") == 0)
    wait_for(lambda: value(scrape(gateway.url), "athena_open_streams") == 0)
    # If slots had been lost, most requests would have been rejected.
    rows = gateway.rows(
        "SELECT error_code FROM proxy_exchange JOIN proxy_clientkey k ON k.id = key_id"
        " WHERE k.label = ?",
        key,
    )
    assert len(rows) > 200  # requests that ended before they were read have no row
    assert sum(row["error_code"] == "key_busy" for row in rows) < len(rows) / 2
