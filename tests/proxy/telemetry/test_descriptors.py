"""A process that runs out of file descriptors says so, and answers 503."""

import resource
import socket
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from proxy.management.commands.serve import descriptor_warnings
from tests.support.chat import ask, error_of, says
from tests.support.gateway import Gateway
from tests.support.metrics import scrape, value
from tests.support.scripted_upstream import whole
from tests.support.waiting import wait_for

LINE = "this process has used nearly all of its"
METRIC = "athena_descriptor_shortages_total"


@pytest.fixture(params=["athena", "httpx"])
def gateway(request, tmp_path, upstream):
    gateway = Gateway(
        tmp_path,
        ATHENA_TRANSPORT=request.param,
        OPENROUTER_API_KEY="x" * 20,
        OPENROUTER_BASE_URL=upstream.url,
    ).start()
    yield gateway
    gateway.stop()


def descriptors(gateway):
    return [int(path.name) for path in Path(f"/proc/{gateway.process.pid}/fd").iterdir()]


@contextmanager
def limited(gateway, spare):
    """Allow `spare` more descriptors than are open, and as many connections of idle clients."""
    pid = gateway.process.pid
    limit = max(descriptors(gateway)) + 1 + spare
    kept = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, kept[1]))
    try:
        with ExitStack() as clients:
            yield limit, clients
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, kept)


def connect(gateway):
    return socket.create_connection(("127.0.0.1", gateway.port))


def accepted_connection(gateway):
    """A connection that the gateway has accepted, or closed for lack of a descriptor."""
    connection = connect(gateway)
    with suppress(ConnectionError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        connection.recv(1)
    return connection


def test_connections_that_take_the_last_descriptors_are_logged_once_and_counted(gateway):
    """N12."""
    with limited(gateway, spare=10) as (limit, clients):
        for _ in range(limit + 10):
            clients.enter_context(connect(gateway))
        wait_for(lambda: LINE in gateway.log)
        wait_for(lambda: limit - len(descriptors(gateway)) < 3)
    wait_for(lambda: value(scrape(gateway.url), METRIC) >= 2)
    assert gateway.log.count(LINE) == 1


def test_a_request_without_a_descriptor_for_its_upstream_is_503(gateway, upstream):
    """N12: it is not the fault of the upstream."""
    script = upstream.script("test/full", says("Hi"))
    upstream.script("test/missing", whole({"error": {"message": "no"}}, status=404))
    with gateway.client() as client:  # whose connection stays open, other than the upstream's
        assert client.post("/v1/messages", json=ask("test/missing")).status_code == 404
        with limited(gateway, spare=10) as (limit, clients):
            while len(descriptors(gateway)) < limit:
                clients.enter_context(accepted_connection(gateway))
            response = client.post("/v1/messages", json=ask("test/full"))
    assert error_of(response)[:2] == (503, "overloaded_error")
    assert response.headers["x-athena-error"] == "at_capacity"
    assert script.requests == []
    wait_for(lambda: LINE in gateway.log)


def test_a_limit_below_the_concurrent_requests_is_a_warning_at_the_start(tmp_path, settings):
    """N12."""
    settings.WORKERS = 1
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        (warning,) = descriptor_warnings(500)
        assert "256 files" in warning
        assert "ulimit -n 1100" in warning
        assert descriptor_warnings(78) == []
        settings.WORKERS = 8
        assert descriptor_warnings(500) == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gateway = Gateway(tmp_path).start()
    try:
        gateway.edit("s = GatewaySettings.objects.get(); s.max_streams = 100_000; s.save()")
    finally:
        gateway.stop()
    gateway.start().stop()
    assert "Warning: this process may open" in gateway.log
