"""Shutdown: new requests are rejected, open answers end properly, and no row is lost."""

import json
import signal
import socket
import sqlite3
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from tests.soak.measure import family
from tests.support.chat import ask, chunk, reply
from tests.support.gateway import KEY, NO_TLS, SHORT_TIMEOUTS, Gateway
from tests.support.scripted_upstream import Pause
from tests.support.waiting import wait_for

PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}
END = chunk({}, "stop") + b"data: [DONE]\n\n"
SHORT = reply(chunk({"content": "one"}), Pause(2), chunk({"content": "two"}), END)
ENDLESS = reply(chunk({"content": "one"}), Pause(90))
FLOOD = reply(*[chunk({"content": "x" * 60_000})] * 400, END)


def head(length, path="/v1/messages"):
    return (
        f"POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    ).encode()


def send(gateway, body, dialect="anthropic", *, window=None):
    connection = socket.socket()
    if window is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", gateway.port))
    data = json.dumps(body).encode()
    connection.sendall(head(len(data), PATHS[dialect]) + data)
    return connection


def rest(connection):
    """Read until the server closes the connection."""
    received = b""
    with connection:
        while part := connection.recv(65536):
            received += part
    return received


def rows(gateway):
    query = "SELECT model, outcome, error_code, status FROM proxy_exchange"
    return {row["model"]: row for row in gateway.rows(query)}


@pytest.fixture
def start(upstream, tmp_path):
    with ExitStack() as stack:

        def start(*, drain_time, **environment):
            settings = {"OPENROUTER_API_KEY": "x" * 20, "OPENROUTER_BASE_URL": upstream.url}
            gateway = Gateway(tmp_path, **settings, **environment).start()
            # Look up the process at the end: a test may have started the gateway again.
            stack.callback(lambda: gateway.process.wait())
            stack.callback(lambda: gateway.process.kill())
            gateway.edit(
                f"s = GatewaySettings.objects.get(); s.drain_time = {drain_time}; s.save()"
            )
            return gateway

        yield start


@pytest.mark.parametrize("workers", ["1", "2"])
def test_draining_refuses_new_requests_finishes_short_answers_and_ends_others_in_errors(
    start, upstream, workers
):
    gateway = start(drain_time=6, ATHENA_WORKERS=workers)
    flood = upstream.script("test/flood", FLOOD)
    kinds = [(d, s) for d in PATHS for s in (True, False)]
    opened = {}
    for dialect, streaming in kinds:
        for length, answer in (("short", SHORT), ("endless", ENDLESS)):
            name = f"test/{length}-{dialect}-{streaming}"
            script = upstream.script(name, answer)
            opened[name] = send(gateway, ask(name, stream=streaming), dialect)
            wait_for(lambda script=script: script.requests)
    upload = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
    upload.sendall(head(1000) + b"{")
    stalled = send(gateway, ask("test/flood", stream=True), window=4096)
    wait_for(lambda: flood.requests)
    idle = httpx.Client(base_url=gateway.url, trust_env=False)
    assert idle.get("/readyz").status_code == 200

    gateway.process.send_signal(signal.SIGTERM)
    signalled = time.monotonic()
    wait_for(lambda: gateway.ready().status_code == 503)
    for _ in range(6):  # any worker may answer
        refused = gateway.ready()
        assert (refused.status_code, refused.json()["status"]) == (503, "draining")
    assert httpx.get(f"{gateway.url}/healthz").status_code == 200
    assert idle.get("/readyz").status_code == 503
    for path in PATHS.values():
        refused = httpx.post(gateway.url + path, json=ask("test/new"), headers={"x-api-key": KEY})
        assert refused.status_code == 503
        assert refused.headers["x-athena-error"] == "draining"
        assert refused.headers["retry-after"] == "2"
        assert refused.headers["connection"] == "close"
        assert "restarting" in refused.text
    assert b" 503 " in rest(upload)

    received = {name: rest(connection) for name, connection in opened.items()}
    assert gateway.process.wait(60) == 0
    # The drain time is 6 s. The endless answers would take 90 s.
    assert 5 < time.monotonic() - signalled < 60
    for name, got in received.items():
        if "short" in name:
            assert b" 200 OK" in got
            assert b"two" in got, name
            assert b"error" not in got
        elif name.endswith("False"):
            assert b" 503 Service Unavailable" in got, name
            assert b"x-athena-error: draining" in got
        else:
            assert b" 200 OK" in got
            assert b"one" in got
            assert b"restarting" in got
            assert (b"event: error" in got) == ("anthropic" in name)
            assert b"[DONE]" not in got
    stalled.close()
    idle.close()
    stored = rows(gateway)
    expected = {name: "ok" if "short" in name else "drained" for name in opened}
    assert {name: stored[name]["outcome"] for name in opened} == expected
    assert stored["test/flood"]["outcome"] == "drained"
    assert "Traceback" not in gateway.log


def test_a_second_signal_ends_the_drain_of_all_workers_at_once(start, upstream):
    gateway = start(drain_time=60, ATHENA_WORKERS="2")
    flood = upstream.script("test/flood", FLOOD)
    opened = []
    for number in range(6):
        script = upstream.script(f"test/endless-{number}", ENDLESS)
        opened.append(send(gateway, ask(f"test/endless-{number}", stream=number % 2 == 0)))
        wait_for(lambda script=script: script.requests)
    stalled = send(gateway, ask("test/flood", stream=True), window=4096)
    wait_for(lambda: flood.requests)
    gateway.process.send_signal(signal.SIGTERM)
    wait_for(lambda: gateway.ready().status_code == 503)
    time.sleep(1.5)  # signals within a second count as one
    assert gateway.process.poll() is None
    gateway.process.send_signal(signal.SIGTERM)
    signalled = time.monotonic()
    for connection in opened:
        assert b"restarting" in rest(connection)
    assert gateway.process.wait(60) == 0
    assert time.monotonic() - signalled < 50  # the drain time is 60 s
    stalled.close()
    assert {row["outcome"] for row in rows(gateway).values()} == {"drained"}
    assert len(rows(gateway)) == 7
    assert "Traceback" not in gateway.log


def test_workers_of_a_killed_parent_finish_open_answers_and_exit(start, upstream):
    gateway = start(drain_time=20, ATHENA_WORKERS="2")
    script = upstream.script("test/short", SHORT)
    connection = send(gateway, ask("test/short", stream=True))
    wait_for(lambda: script.requests)
    workers = family(gateway.process.pid)[1:]
    gateway.process.kill()
    gateway.process.wait()
    assert b"message_stop" in rest(connection)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert rows(gateway)["test/short"]["outcome"] == "ok"
    assert "the parent process of this worker is gone" in gateway.log


def test_a_locked_database_does_not_keep_the_process_from_exiting(start, upstream):
    gateway = start(drain_time=1, **SHORT_TIMEOUTS)
    script = upstream.script("test/endless", ENDLESS)
    connection = send(gateway, ask("test/endless", stream=True))
    wait_for(lambda: script.requests)
    path = gateway.data_dir / "athena.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN EXCLUSIVE")
        gateway.process.send_signal(signal.SIGTERM)
        assert b"restarting" in rest(connection)
        signalled = time.monotonic()
        assert gateway.process.wait(60) == 0
        assert time.monotonic() - signalled < 30


class Balancer:
    """Sends requests to nodes that are ready; a request that a node rejects goes to another."""

    def __init__(self, gateways):
        self.gateways = gateways
        self.seen = Counter()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(6)]

    def _ask(self, number):
        with httpx.Client(
            headers={"x-api-key": KEY}, timeout=60, trust_env=False, verify=NO_TLS
        ) as client:
            while not self._stopping.wait(0.02):
                self.seen[self._answer(client, streaming=number % 2 == 0)] += 1
                number += 1

    def _answer(self, client, *, streaming):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for gateway in self.gateways:
                try:
                    if client.get(f"{gateway.url}/readyz").status_code != 200:
                        continue
                except httpx.TransportError:  # the node is stopping
                    continue
                try:
                    url = f"{gateway.url}/v1/messages"
                    response = client.post(url, json=ask("test/steady", stream=streaming))
                except httpx.ConnectError:
                    continue
                except httpx.TransportError as error:
                    return repr(error)
                if response.headers.get("x-athena-error") == "draining":
                    continue
                is_whole = b"one" in response.content and b"two" in response.content
                return "complete" if response.status_code == 200 and is_whole else response.text
            time.sleep(0.05)
        return "no node is ready"

    def wait_for_more(self, count):
        wanted = self.seen.total() + count
        wait_for(lambda: self.seen.total() >= wanted)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()


def test_a_rolling_restart_loses_no_request(start, upstream):
    gateways = [start(drain_time=30), start(drain_time=30)]
    words = reply(chunk({"content": "one"}), Pause(0.5), chunk({"content": "two"}), END)
    upstream.script("test/steady", words)
    with Balancer(gateways) as balancer:
        for gateway in gateways:
            balancer.wait_for_more(10)
            assert gateway.stop() == 0
            gateway.start()
            # Prefer the restarted node, so that both get requests.
            balancer.gateways = list(reversed(balancer.gateways))
        balancer.wait_for_more(10)
    assert balancer.seen.keys() == {"complete"}, balancer.seen
    for gateway in gateways:
        gateway.stop()
    stored = gateways[0].rows("SELECT outcome FROM proxy_exchange WHERE model = 'test/steady'")
    assert Counter(row["outcome"] for row in stored) == {"ok": balancer.seen["complete"]}
