"""Every process says that it is there; one that does not is not counted."""

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


def test_all_workers_report_until_they_stop(upstream, tmp_path):
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url, ATHENA_WORKERS="2"
    ).start()

    def reports():
        return gateway.rows("SELECT * FROM proxy_gatewayprocess ORDER BY name")

    wait_for(lambda: len(reports()) == 2)
    first, second = reports()
    assert first["name"] != second["name"]
    assert {row["configuration_version"] for row in (first, second)} == {gateway._version()}
    gateway.edit("FormatOverride.objects.create(pattern='house/*', format='kimi')")
    wait_for(lambda: {r["configuration_version"] for r in reports()} == {gateway._version()})
    upstream.script("test/slow", reply(chunk({"content": "one"}), Pause(4), stream()))
    with (
        gateway.client() as client,
        client.stream("POST", "/v1/messages", json=ask("test/slow", stream=True)) as answer,
    ):
        parts = answer.iter_bytes()  # held: without it the answer would be closed
        next(parts)
        wait_for(lambda: sum(row["open_streams"] for row in reports()) == 1)
    wait_for(lambda: sum(row["open_streams"] for row in reports()) == 0)
    assert all(row["seen_at"] > first["started_at"] for row in reports())
    assert gateway.stop() == 0
    assert reports() == []


def test_one_that_was_killed_leaves_a_row_that_is_not_counted(tmp_path):
    gateway = Gateway(tmp_path).start()
    wait_for(lambda: gateway.rows("SELECT * FROM proxy_gatewayprocess"))
    gateway.stop(signal.SIGKILL)
    assert len(gateway.rows("SELECT * FROM proxy_gatewayprocess")) == 1


@pytest.mark.django_db
def test_those_who_are_silent_are_not_running():
    for name, silence in (("here", 1), ("dead", 11), ("long dead", 4000)):
        row = GatewayProcess.objects.create(
            token=name, name=name, open_streams=0, audit_waiting=0, audit_dropped=0
        )
        GatewayProcess.objects.filter(pk=row.pk).update(seen_at=Now() - timedelta(seconds=silence))
    assert [row.name for row in GatewayProcess.running()] == ["here"]
    Heartbeat(lambda: STATE)._forget_the_dead()
    assert {row.name for row in GatewayProcess.objects.all()} == {"here", "dead"}


@pytest.mark.django_db
def test_a_report_makes_a_row_and_then_changes_it():
    heartbeat = Heartbeat(lambda: STATE)
    heartbeat._token = "a"
    for streams in (2, 5):
        heartbeat._report(State(3, open_streams=streams, audit_waiting=1, audit_dropped=0))
    row = GatewayProcess.running().get()
    assert (row.open_streams, row.audit_waiting, row.configuration_version) == (5, 1, 3)
    assert row.started_at <= row.seen_at


@pytest.mark.parametrize("error", [OperationalError("gone"), ValueError("a defect")])
def test_a_database_that_is_away_costs_a_report_and_nothing_else(monkeypatch, error):
    seen = []

    def report(self, state):
        seen.append((state, threading.current_thread().name))
        raise error

    monkeypatch.setattr("proxy.process.heartbeat._INTERVAL", 0.01)
    monkeypatch.setattr("proxy.process.heartbeat.renew_connection", lambda: None)
    monkeypatch.setattr(Heartbeat, "_forget_the_dead", lambda self: None)
    monkeypatch.setattr(Heartbeat, "_report", report)

    async def main():
        task = asyncio.create_task(Heartbeat(lambda: STATE).run())
        while len(seen) < 3:
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()

    asyncio.run(main())
    assert seen[0][0] == STATE
    assert seen[0][1].startswith("heartbeat")
