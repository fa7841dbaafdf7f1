"""/metrics: counters and their labels, access, and several workers."""

import asyncio
import os
import signal

import httpx
import pytest
from django.http import Http404
from prometheus_client.multiprocess import MultiProcessCollector

from proxy.audit.exchange import Exchange
from proxy.audit.recorder import AuditRecorder
from proxy.configuration.live import Configuration
from proxy.serving.metrics_view import metrics as answer
from proxy.serving.request import GatewayRequest
from proxy.serving.runtime import Runtime
from proxy.telemetry import metrics
from tests.support.calls_in_text import NATIVE
from tests.support.chat import END, ask, chunk, reply, says, stream
from tests.support.gateway import KEY, Gateway
from tests.support.metrics import scrape, value
from tests.support.raw_client import start_request
from tests.support.scripted_upstream import Hold, Pause, whole
from tests.support.waiting import wait_for

TOKEN = "a-token-of-the-metrics"
KIMI = NATIVE["moonshotai/kimi-k2.5"]


@pytest.fixture(scope="module")
def own_gateway(upstream, tmp_path_factory):
    """Gateway that only this module uses."""
    gateway = Gateway(
        tmp_path_factory.mktemp("metrics"),
        OPENROUTER_API_KEY="sk-or-canary-of-the-upstream",
        OPENROUTER_BASE_URL=upstream.url,
        ATHENA_METRICS_TOKEN=TOKEN,
    ).start()
    gateway.edit(
        "o = Upstream.objects.get(name='openrouter')\n"
        "ModelRoute.objects.create(pattern='named-*', upstream=o, upstream_model='test/named')\n"
        "ModelRoute.objects.create(pattern='kimi-*', upstream=o)\n"
        "FormatOverride.objects.create(pattern='kimi-*', format='kimi')"
    )
    yield gateway
    gateway.stop()


class Difference:
    """Change of the counters since its creation."""

    def __init__(self, gateway):
        self.gateway, self.before = gateway, scrape(gateway.url)

    def __call__(self, name, **labels):
        after = scrape(self.gateway.url)
        return value(after, name, **labels) - value(self.before, name, **labels)


@pytest.fixture
def since(own_gateway):
    return Difference(own_gateway)


def test_a_conversation_is_counted_by_route_upstream_model_and_status(own_gateway, upstream, since):
    upstream.script("test/named", says("Hi"))
    with own_gateway.client() as client:
        for streaming in (True, False):
            client.post("/v1/messages", json=ask("named-one", stream=streaming))
    labels = {
        "route": "named-*",
        "provider": "openrouter",
        "model_group": "test/named",
        "status": "200",
        "error_source": "",
    }
    wait_for(lambda: since("athena_requests_total", **labels) == 2)
    assert since("athena_requests_total") == 2
    assert since("athena_transform_total", format="auto", outcome="ok", reason="") == 2
    for name in ("athena_upstream_ttfb_seconds", "athena_gateway_overhead_seconds"):
        assert since(f"{name}_count") == since(f"{name}_bucket", le="+Inf") == 2
        assert 0 < since(f"{name}_sum") < 60
    assert not [s for s in scrape(own_gateway.url) if s.name.endswith("_created")]


def test_model_names_of_clients_do_not_create_series(own_gateway, upstream, since):
    hostile = ["x" * 500, 'a"} 1\nathena_x 1', "né", "named-\n", "openrouter/é"]
    with own_gateway.client() as client:
        for name in [*(f"made/up-{n}" for n in range(20)), *hostile]:
            upstream.script(name, whole({"error": {"message": "no such model"}}, 404))
            client.post("/v1/messages", json=ask(name, stream=True))
    wait_for(lambda: since("athena_requests_total") == 25)
    samples = scrape(own_gateway.url)
    assert {s.labels["model_group"] for s in samples if "model_group" in s.labels} <= {
        "other",
        "test/named",
        "moonshotai/kimi-k2.5",
        "",
    }
    assert {s.labels["route"] for s in samples if "route" in s.labels} <= {
        "default",
        "named-*",
        "kimi-*",
        "",
    }
    assert since("athena_requests_total", model_group="other", status="404") >= 20


def test_translations_are_counted_by_format_and_reason(own_gateway, upstream, since):
    answers = {
        "kimi-good": stream({"content": KIMI}),
        "kimi-bad": stream({"content": KIMI.replace('{"harbor"', '{"harbor')}),
        "test/leaky": stream({"content": KIMI}),
        "kimi-lost": chunk({"content": "one"}),
    }
    with own_gateway.client() as client:
        for name, answer in answers.items():
            upstream.script(name, reply(answer))
            client.post("/v1/messages", json=ask(name, stream=True))
    wait_for(lambda: since("athena_requests_total") == 4)
    name = "athena_transform_total"
    assert since(name, format="kimi", outcome="rescued", reason="") == 1
    assert since(name, format="kimi", outcome="failed", reason="call_invalid_json") == 1
    assert since(name, format="auto", outcome="leaked", reason="") == 1
    assert since(name) == 3, "an answer that broke off does not count"
    assert since("athena_requests_total", status="200", error_source="upstream") == 2


def test_refused_requests_are_counted_and_probes_are_not(own_gateway, since):
    with own_gateway.client() as client:
        assert client.get("/v1/models").status_code == 200
        assert client.get("/healthz").status_code == 200
        assert client.post("/v1/messages", json={}).status_code == 400
        assert client.get("/v1/nothing").status_code == 404
        wrong = client.post("/v1/messages", headers={"x-api-key": "sk-wrong"}, json={})
        assert wrong.status_code == 401
    wait_for(lambda: since("athena_requests_total", error_source="client") == 3)
    assert since("athena_requests_total", status="401", route="", provider="") == 1
    assert since("athena_requests_total") == 3


def test_open_streams_and_buffered_bytes_are_measured_until_the_stream_ends(
    own_gateway, upstream, since
):
    partial_call = "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide"
    parts = [chunk({"content": "one"}), Pause(0.2), chunk({"content": partial_call}), Pause(20)]
    upstream.script("kimi-slow", reply(*parts))
    connection = start_request(own_gateway, ask("kimi-slow", stream=True))
    wait_for(lambda: value(scrape(own_gateway.url), "athena_open_streams") == 1)
    buffered_bytes = len(chunk({"content": partial_call}))
    wait_for(lambda: value(scrape(own_gateway.url), "athena_buffer_bytes") == buffered_bytes)
    connection.close()
    wait_for(lambda: value(scrape(own_gateway.url), "athena_open_streams") == 0)
    assert value(scrape(own_gateway.url), "athena_buffer_bytes") == 0
    wait_for(lambda: since("athena_client_disconnects_total") == 1)
    assert since("athena_upstream_ttfb_seconds_count") == 1


def test_the_configuration_version_is_a_metric(own_gateway):
    version = value(scrape(own_gateway.url), "athena_config_version")
    own_gateway.edit("k = FormatSettings.objects.first(); k.save()")
    wait_for(lambda: value(scrape(own_gateway.url), "athena_config_version") > version)


def test_a_dropped_row_is_counted():
    before = value(list(samples()), "athena_audit_dropped_total")
    audit = AuditRecorder()
    audit._drop()
    assert audit.dropped == 1
    assert value(list(samples()), "athena_audit_dropped_total") == before + 1


def samples():
    for family in metrics.REGISTRY.collect():
        yield from family.samples


def test_a_failure_in_the_metrics_loses_neither_the_slot_nor_the_row(monkeypatch):
    runtime, submitted = Runtime(Configuration()), []
    monkeypatch.setattr("proxy.audit.exchange_metrics.count_exchange", lambda *_: 1 / 0)
    monkeypatch.setattr(runtime.quota, "release", submitted.append)
    monkeypatch.setattr(runtime.audit, "record_end", lambda *arguments: submitted.append(arguments))
    exchange = Exchange("openai")
    runtime.end(exchange, 200)
    assert submitted == [exchange, (exchange, 200)]


def test_forwarded_requests_need_the_metrics_token(own_gateway):
    url = f"{own_gateway.url}/metrics"
    forwarded = {"x-forwarded-for": "127.0.0.1"}
    with httpx.Client(trust_env=False) as client:
        assert client.get(url).status_code == 200
        assert client.head(url).status_code == 200
        assert client.post(url).status_code == 405
        for method in ("GET", "POST"):
            refused = client.request(method, url, headers=forwarded)
            assert refused.status_code == 404, "the page must not be disclosed"
            assert refused.json()["error"]["message"].startswith("there is nothing at /metrics (")
        for given in ("Bearer wrong", f"Bearer {TOKEN}x", TOKEN, f"Basic {TOKEN}", "Bearer"):
            refused = client.get(url, headers=forwarded | {"authorization": given})
            assert refused.status_code == 404, given
        headers = forwarded | {"authorization": f"Bearer {TOKEN}"}
        answer = client.get(url, headers=headers)
        assert (answer.status_code, answer.headers["x-content-type-options"]) == (200, "nosniff")
        # A client key is not the token.
        assert client.get(url, headers=forwarded | {"x-api-key": KEY}).status_code == 404
    assert TOKEN not in own_gateway.log


def request_from(address, **headers):
    return GatewayRequest(
        {
            "type": "http",
            "method": "GET",
            "path": "/metrics",
            "query_string": b"",
            "client": (address, 5000) if address else None,
            "headers": [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()],
        }
    )


def is_answered(request):
    try:
        return asyncio.run(answer(request)).status_code == 200
    except Http404:
        return False


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_loopback_addresses_are_local_unless_a_proxy_header_is_present(address):
    assert is_answered(request_from(address))
    for header in (
        "x_forwarded_for",
        "forwarded",
        "x_real_ip",
        "via",
        "x_forwarded_host",
        "x_forwarded_proto",
        "x_client_ip",
    ):
        assert not is_answered(request_from(address, **{header: "127.0.0.1"})), header


@pytest.mark.parametrize("address", ["", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "unix"])
def test_other_addresses_are_not_local(address):
    assert not is_answered(request_from(address))


def test_no_token_is_accepted_if_none_is_configured(settings):
    settings.METRICS_TOKEN = ""
    for given in ("Bearer ", "Bearer", "", "Bearer x"):
        assert not is_answered(request_from("10.0.0.1", authorization=given))
    settings.METRICS_TOKEN = TOKEN
    assert is_answered(request_from("10.0.0.1", authorization=f"bearer {TOKEN}"))
    assert not is_answered(request_from("10.0.0.1", authorization=f"Bearer {TOKEN}é"))


@pytest.mark.parametrize("token", ["short", "with a space in the middle", "sixteen-or-more-é"])
def test_an_invalid_metrics_token_is_rejected_at_the_start(tmp_path, token):
    done = Gateway(tmp_path, ATHENA_METRICS_TOKEN=token).manage("check")
    assert done.returncode != 0
    assert "ATHENA_METRICS_TOKEN must have at least 16 ASCII characters" in done.stderr
    assert token not in done.stderr


@pytest.fixture
def workers(upstream, tmp_path):
    """Gateway of two workers, with a metrics file of an earlier run."""
    gateway = Gateway(
        tmp_path,
        OPENROUTER_API_KEY="sk-or-canary-of-the-upstream",
        OPENROUTER_BASE_URL=upstream.url,
        ATHENA_WORKERS="2",
    )
    directory = tmp_path / f"metrics-{gateway.port}"
    directory.mkdir()
    (directory / "counter_1.db").write_bytes(b"left")
    gateway.start()
    yield gateway
    gateway.stop()


def counts_of_workers(gateway, name="athena_requests_total", kind="counter"):
    """Return the value in the file of each process, by pid."""
    counts = {}
    for path in (gateway.data_dir / f"metrics-{gateway.port}").glob(f"{kind}_*.db"):
        if not path.stat().st_size:  # its worker is starting
            continue
        families = MultiProcessCollector.merge([str(path)])
        listed = [sample for family in families for sample in family.samples]
        counts[int(path.stem.rpartition("_")[2])] = value(listed, name)
    return counts


def test_any_worker_reports_for_all_workers_including_dead_ones(workers, upstream, model):
    upstream.script(model, says("Hi"))
    sent = 0

    def ask_once():
        with workers.client() as client:  # a new connection reaches either worker
            assert client.post("/v1/messages", json=ask(model)).status_code == 200

    # As a worker that has just created its file, and not written to it.
    (workers.data_dir / f"metrics-{workers.port}/counter_2.db").touch()
    wait_for(lambda: len(counts_of_workers(workers)) == 2)  # workers start one after the other
    while sent < 10 or min(counts_of_workers(workers).values()) < 2:
        ask_once()
        sent += 1
        assert sent < 300, "one worker gets all requests"
    wait_for(lambda: sum(counts_of_workers(workers).values()) == sent)
    assert len(counts_of_workers(workers)) == 2

    def total():
        values = {value(scrape(workers.url), "athena_requests_total") for _ in range(10)}
        assert len(values) == 1, "workers disagree"
        return values.pop()

    assert total() == sent
    assert value(scrape(workers.url), "athena_upstream_ttfb_seconds_count") == sent
    assert value(scrape(workers.url), "athena_config_version") >= 1

    upstream.script(model, reply(chunk({"content": "one"}), Hold(), END))
    connection = start_request(workers, ask(model, stream=True))
    wait_for(lambda: value(scrape(workers.url), "athena_open_streams") == 1)
    holders = counts_of_workers(workers, "athena_open_streams", "gauge_livesum")
    (holder,) = [pid for pid, streams in holders.items() if streams]
    os.kill(holder, signal.SIGKILL)
    wait_for(lambda: value(scrape(workers.url), "athena_open_streams") == 0)
    connection.close()
    assert total() == sent, "counters of a dead worker must stay"
    wait_for(lambda: len(counts_of_workers(workers)) == 3)  # it was replaced
    wait_for(lambda: httpx.get(f"{workers.url}/readyz").status_code == 200)
    assert value(scrape(workers.url), "athena_config_version") >= 1
    upstream.script(model, says("Hi"))
    for _ in range(20):
        ask_once()
    wait_for(lambda: total() == sent + 20)
    running = counts_of_workers(workers, "athena_open_streams", "gauge_livesum")
    assert len(running) == 2
    assert holder not in running
