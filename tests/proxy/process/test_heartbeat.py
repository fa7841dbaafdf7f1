"""Processes write heartbeats; those without a recent one do not count as running."""

import asyncio
import signal
import threading
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.db.models.functions import Now

from proxy.models import GatewayProcess
from proxy.process.heartbeat import Heartbeat, State
from tests.support.chat import ask, chunk, reply, stream
from tests.support.gateway import Gateway
from tests.support.scripted_upstream import Pause
from tests.support.waiting import wait_for

STATE = State(configuration_version=3, open_streams=2, audit_waiting=1, audit_dropped=0)


def test_every_worker_writes_heartbeats_until_it_stops(upstream, tmp_path):
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url, ATHENA_WORKERS="2"
    ).start()

    def processes():
        return gateway.rows("SELECT * FROM proxy_gatewayprocess ORDER BY name")

    wait_for(lambda: len(processes()) == 2)
    first, second = processes()
    assert first["name"] != second["name"]
    assert {row["configuration_version"] for row in (first, second)} == {gateway._version()}
    gateway.edit("FormatOverride.objects.create(pattern='house/*', format='kimi')")
    wait_for(lambda: {r["configuration_version"] for r in processes()} == {gateway._version()})
    upstream.script("test/slow", reply(chunk({"content": "one"}), Pause(60), stream()))
    with (
        gateway.client() as client,
        client.stream("POST", "/v1/messages", json=ask("test/slow", stream=True)) as answer,
    ):
        parts = answer.iter_bytes()  # without this reference the answer would be closed
        next(parts)
        wait_for(lambda: sum(row["open_streams"] for row in processes()) == 1)
    wait_for(lambda: sum(row["open_streams"] for row in processes()) == 0)
    assert all(row["seen_at"] > first["started_at"] for row in processes())
    assert gateway.stop() == 0
    assert processes() == []


def test_a_killed_process_leaves_its_row(tmp_path):
    gateway = Gateway(tmp_path).start()
    wait_for(lambda: gateway.rows("SELECT * FROM proxy_gatewayprocess"))
    gateway.stop(signal.SIGKILL)
    assert len(gateway.rows("SELECT * FROM proxy_gatewayprocess")) == 1


@pytest.mark.django_db
def test_processes_without_a_recent_heartbeat_are_not_running():
    for name, silence in (("running", 1), ("dead", 11), ("long dead", 4000)):
        row = GatewayProcess.objects.create(
            token=name, name=name, open_streams=0, audit_waiting=0, audit_dropped=0
        )
        GatewayProcess.objects.filter(pk=row.pk).update(seen_at=Now() - timedelta(seconds=silence))
    assert [row.name for row in GatewayProcess.running()] == ["running"]
    Heartbeat(lambda: STATE)._delete_dead()
    assert {row.name for row in GatewayProcess.objects.all()} == {"running", "dead"}


@pytest.mark.django_db
def test_the_first_heartbeat_creates_the_row_and_later_ones_update_it():
    heartbeat = Heartbeat(lambda: STATE)
    heartbeat._token = "a"
    for streams in (2, 5):
        heartbeat._write(State(3, open_streams=streams, audit_waiting=1, audit_dropped=0))
    row = GatewayProcess.running().get()
    assert (row.open_streams, row.audit_waiting, row.configuration_version) == (5, 1, 3)
    assert row.started_at <= row.seen_at


@pytest.mark.parametrize("error", [OperationalError("gone"), ValueError("a defect")])
def test_a_failed_heartbeat_does_not_stop_later_ones(monkeypatch, error):
    calls = []

    def write(self, state):
        calls.append((state, threading.current_thread().name))
        raise error

    monkeypatch.setattr("proxy.process.heartbeat._INTERVAL", 0.01)
    monkeypatch.setattr("proxy.process.heartbeat.renew_connection", lambda: None)
    monkeypatch.setattr(Heartbeat, "_delete_dead", lambda self: None)
    monkeypatch.setattr(Heartbeat, "_write", write)

    async def main():
        task = asyncio.create_task(Heartbeat(lambda: STATE).run())
        while len(calls) < 3:
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()

    asyncio.run(main())
    assert calls[0][0] == STATE
    assert calls[0][1].startswith("heartbeat")
