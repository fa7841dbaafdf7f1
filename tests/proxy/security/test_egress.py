"""Egress policy: spellings of addresses, hostile resolvers and real sockets."""

import asyncio
import socket
from dataclasses import replace

import httpx
import pytest
from django.core.exceptions import ValidationError

from proxy.configuration.routing import resolve
from proxy.configuration.snapshot import load
from proxy.configuration.upstream import head_of, origin_of, read_upstream
from proxy.errors import UpstreamFailed
from proxy.models import Upstream
from proxy.security.egress import EgressPolicy, ForbiddenAddress
from proxy.serving.upstream_test import Problem, models_of, probe
from proxy.upstreams.client import NOTHING_FORWARDED, UpstreamClient
from proxy.upstreams.httpx_client import CheckedClient
from proxy.upstreams.pool import ConnectionPool
from tests.support.chat import ask, error_of, says
from tests.support.stored_exchanges import configure

NONE, ALL = EgressPolicy.parse("none"), EgressPolicy.parse("all")

NEVER = [
    "169.254.169.254",
    "169.254.169.254.",
    "169.254.170.2",
    "0xa9fea9fe",
    "0xA9.0xFE.0xA9.0xFE",
    "2852039166",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[fe80::1]",
    "fe80::1%eth0",
    "[::ffff:169.254.169.254]",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
    "2001:0:1:2:3:4:5601:5601",
    "2001:db8::5efe:a9fe:a9fe",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "::ffff:168.63.129.16",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "metadata",
    "metadata.goog",
    "instance-data.ec2.internal",
    "0.0.0.0",  # noqa: S104
    "0",
    "0x0",
    "0.1.2.3",
    "::",
    "[::ffff:0.0.0.0]",
    "224.0.0.1",
    "ff02::1",
    "240.0.0.1",
    "255.255.255.255",
    "\uff11\uff16\uff19.254.169.254",
]
PRIVATE = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "[::1]",
    "[::ffff:7f00:1]",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "fd12:3456::1",
    "fec0::1",
    "4000::1",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "[2606:4700::1111]", "64:ff9b::808:808", "134744072", "172.32.0.1"]


@pytest.mark.parametrize("host", NEVER)
def test_forbidden_addresses_are_rejected_in_every_spelling(host):
    with pytest.raises(ForbiddenAddress, match="never allowed"):
        ALL.check_literal(host, 80)


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_must_be_listed(host):
    ALL.check_literal(host, 80)
    with pytest.raises(ForbiddenAddress, match="ATHENA_ALLOW_PRIVATE_UPSTREAMS"):
        NONE.check_literal(host, 80)


@pytest.mark.parametrize("host", PUBLIC)
def test_public_addresses_are_allowed(host):
    assert NONE.check_literal(host, 443) is not None


def test_host_names_are_checked_when_connecting():
    assert NONE.check_literal("api.example.org", 443) is None
    assert NONE.check_literal("0x7f.example.org", 443) is None
    assert NONE.check_literal("", 443) is None


def test_the_policy_lists_networks_addresses_and_names():
    some = EgressPolicy.parse(" 10.0.0.0/8, ::1 ,vllm.local ", own=("127.0.0.1", 8000))
    for host, port in (("10.9.9.9", 80), ("[::1]", 80), ("127.0.0.1", 8000)):
        some.check_literal(host, port)
    for host, port in (("192.168.0.1", 80), ("127.0.0.1", 8001), ("127.0.0.2", 8000)):
        with pytest.raises(ForbiddenAddress):
            some.check_literal(host, port)
    for nonsense in ("10.0.0.1/8", "a b", "http://10.0.0.1", "2130706433", "all,none/"):
        with pytest.raises(ValueError, match="is not a network, address or host name"):
            EgressPolicy.parse(nonsense)


class Resolver:
    """Fake resolver that returns the given answers in turn."""

    def __init__(self, monkeypatch, *answers):
        self.answers, self.queries = list(answers), []
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, host, port, *rest, **named):
        self.queries.append(host)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses
        ]


@pytest.mark.parametrize(
    ("answer", "policy"),
    [
        (["169.254.169.254"], ALL),
        (["1.1.1.1", "169.254.169.254"], ALL),
        (["1.1.1.1", "10.0.0.1"], NONE),
        (["fe80::1%2"], ALL),
        (["fd00:ec2::254"], ALL),
        (["127.0.0.1"], NONE),
    ],
)
def test_every_address_of_a_name_is_checked(monkeypatch, answer, policy):
    Resolver(monkeypatch, answer)
    with pytest.raises(ForbiddenAddress):
        policy.resolve("innocent.example.org", 443)
    with pytest.raises(ForbiddenAddress):
        asyncio.run(policy.resolve_async("innocent.example.org", 443))


def test_a_listed_name_may_resolve_to_a_private_but_not_a_link_local_address(monkeypatch):
    listed = EgressPolicy.parse("vllm.internal")
    Resolver(monkeypatch, ["10.0.0.7"])
    assert listed.resolve("vLLM.internal.", 80) == ["10.0.0.7"]
    Resolver(monkeypatch, ["169.254.169.254"])
    with pytest.raises(ForbiddenAddress):
        listed.resolve("vllm.internal", 80)


def _request(url):
    return httpx.Request("GET", url, extensions={"timeout": {"connect": 5, "read": 5, "pool": 5}})


async def _fetch(pool, url):
    target = httpx.URL(url)
    answer = await pool.send(
        origin_of(target), head_of(target, ()), b"", connect_timeout=5, answer_timeout=5
    )
    body = b""
    while part := await answer.read():
        body += part
    answer.abort()
    return body


async def _fetch_with_pool(url):
    pool = ConnectionPool()
    try:
        return await _fetch(pool, url)
    finally:
        await pool.aclose()
        await asyncio.sleep(0.02)  # asyncio closes sockets a moment later


async def _fetch_with_httpx(url):
    async with CheckedClient(trust_env=False) as client:
        return (await client.send(_request(url))).content


@pytest.mark.parametrize("fetch", [_fetch_with_pool, _fetch_with_httpx])
def test_connections_use_the_checked_address(monkeypatch, settings, upstream, fetch):
    """DNS rebinding: the second query of a name returns another address."""
    settings.PRIVATE_UPSTREAMS = EgressPolicy.parse("127.0.0.1")
    upstream.script("/v1/rebound", says("hello"))
    resolver = Resolver(monkeypatch, ["127.0.0.1"], ["127.0.0.99"])
    url = f"http://rebinding.example.org:{upstream.port}/v1/rebound"
    assert b"hello" in asyncio.run(fetch(url))
    assert resolver.queries == ["rebinding.example.org"]
    with pytest.raises(httpx.ConnectError) as refused:
        asyncio.run(fetch(url))
    assert "does not list" in str(refused.value)


@pytest.mark.parametrize("fetch", [_fetch_with_pool, _fetch_with_httpx])
def test_the_next_address_is_tried_if_one_does_not_answer(monkeypatch, upstream, fetch):
    upstream.script("/v1/second", says("hello"))
    Resolver(monkeypatch, ["127.0.0.77", "127.0.0.1"])
    assert b"hello" in asyncio.run(fetch(f"http://two.example.org:{upstream.port}/v1/second"))


def test_a_reused_connection_is_not_checked_again(monkeypatch, upstream):
    upstream.script("/v1/kept", says("hello"))
    resolver = Resolver(monkeypatch, ["127.0.0.1"])

    async def twice():
        pool = ConnectionPool(rest=0)
        try:
            for _ in range(2):
                url = f"http://kept.example.org:{upstream.port}/v1/kept"
                await _fetch(pool, url)
        finally:
            await pool.aclose()
            await asyncio.sleep(0.02)  # asyncio closes sockets a moment later

    asyncio.run(twice())
    assert len(resolver.queries) == 1


@pytest.mark.parametrize("transport", ["athena", "httpx"])
@pytest.mark.django_db
def test_a_forbidden_upstream_is_a_configuration_error(settings, transport):
    configure()
    row = Upstream(name="inside", base_url="http://169.254.169.254/latest")
    route = load().routes[0]
    forbidden = replace(resolve(load(), route.pattern), upstream=read_upstream(row))

    async def call():
        client = UpstreamClient(transport=transport)
        try:
            await client.open(forbidden, b"{}", NOTHING_FORWARDED, tokens=1)
        finally:
            await client.aclose()

    with pytest.raises(UpstreamFailed) as failed:
        asyncio.run(call())
    error = failed.value
    assert (error.status, error.code) == (502, "upstream_forbidden_address")
    assert (error.source, error.retry_same_upstream, error.should_retry) == ("config", False, False)
    assert "169.254" not in str(error)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://metadata.google.internal/v1",
        "http://[::ffff:a9fe:a9fe]/v1",
        "http://2852039166/v1",
        "https://[fd00:ec2::254]/v1",
        "http://0.0.0.0:8000/v1",
    ],
)
def test_a_forbidden_address_is_not_saved(url):
    row = Upstream(name="inside", base_url=url)
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    assert "never allowed" in str(refused.value.message_dict["base_url"])


@pytest.mark.django_db
def test_a_private_address_is_saved_only_if_allowed(settings):
    row = Upstream(name="near", base_url="http://127.0.0.1:8001/v1")
    row.full_clean()
    settings.PRIVATE_UPSTREAMS = NONE
    with pytest.raises(ValidationError, match="ATHENA_ALLOW_PRIVATE_UPSTREAMS"):
        row.full_clean()
    settings.PRIVATE_UPSTREAMS = EgressPolicy.parse("none", own=("127.0.0.1", 8001))
    row.full_clean()  # the gateway itself, for the demo


@pytest.mark.django_db(transaction=True)
def test_the_upstream_test_and_the_model_list_apply_the_policy(settings, upstream):
    configure()
    settings.PRIVATE_UPSTREAMS = NONE
    row = read_upstream(Upstream(name="near", base_url=upstream.url))
    steps = {step.name: step for step in probe(row, load())}
    assert steps["name"].state == "wrong"
    assert "loopback" in steps["name"].detail
    assert steps["connection"].state == "skipped"
    with pytest.raises(Problem, match="loopback"):
        models_of(row)
    settings.UPSTREAM_TRANSPORT = "httpx"  # its first step is the key
    steps = {step.name: step for step in probe(row, load())}
    assert "loopback" in steps["key"].detail


@pytest.fixture
def metadata_route(gateway, model):
    """Route to a forbidden address that was saved without validation.

    It is removed again, because the other tests of the shared gateway import its configuration.
    """
    gateway.edit(
        "u = Upstream.objects.create(name='inside', base_url='http://169.254.169.254/v1')\n"
        f"ModelRoute.objects.create(pattern={model!r}, upstream=u)"
    )
    yield
    gateway.edit(
        f"ModelRoute.objects.filter(pattern={model!r}).delete()\n"
        "Upstream.objects.filter(name='inside').delete()"
    )


@pytest.mark.usefixtures("metadata_route")
def test_a_metadata_address_in_the_database_is_not_connected_to(gateway, client, model):
    """End to end, with a row that was saved without validation."""
    response = client.post("/v1/messages", json=ask(model))
    status, kind, message = error_of(response)
    assert (status, kind) == (502, "api_error")
    assert "169.254" not in message
    assert response.headers["x-athena-error"] == "upstream_forbidden_address"
    assert response.headers["x-athena-error-source"] == "config"
    assert response.headers["x-should-retry"] == "false"
    row = gateway.exchange(response)
    assert (row["outcome"], row["error_source"]) == ("gateway_error", "config")
    assert len(row["attempts"]) <= 1
