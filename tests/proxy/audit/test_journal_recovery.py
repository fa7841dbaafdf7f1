"""Recovery: the journal of a dead process is stored exactly once."""

import os
import signal
import sqlite3
import threading
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from django.db import OperationalError

from proxy import models
from proxy.audit.bulk_insert import insert_batch
from proxy.audit.journal.entries import DropEntry, StartEntry, encode
from proxy.audit.journal.journal import Journal, lock_journal
from proxy.audit.recorder import AuditRecorder
from tests.support.chat import ask, chunk, reply, says, stream
from tests.support.database import of_sqlite
from tests.support.gateway import KEY, Gateway
from tests.support.journal_entries import failed_entry
from tests.support.scripted_upstream import Pause
from tests.support.waiting import wait_for


def dead_journal(root, *entries):
    """A journal whose process is dead."""
    folder = root / f"dead{len(list(root.iterdir()))}"
    folder.mkdir()
    (folder / "00000001.jsonl").write_bytes(b"".join(map(encode, entries)))
    return folder


@pytest.fixture(params=[True, False], ids=["cached", "from disk"])
def audit(tmp_path, one_connection, monkeypatch, request):
    if not request.param:
        monkeypatch.setattr("proxy.audit.journal.reader._CACHE_BYTES", 0)
    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**30))
    audit.open_journal()
    yield audit
    audit.journal.close()


def start_entry(name, **fields):
    return StartEntry(
        {
            "request_id": name,
            "created_at": datetime.now(UTC) - timedelta(seconds=9),
            "key_id": None,
            "dialect": "anthropic",
            "model": "moonshotai/kimi-k2",
            "is_streaming": True,
            "gateway_ms": 0.0,
            "configuration_version": 7,
            **fields,
        }
    )


def outcomes():
    return dict(models.Exchange.objects.values_list("request_id", "outcome"))


def test_ended_exchanges_are_stored_and_open_ones_are_marked_as_crashed(audit, tmp_path):
    folder = dead_journal(
        tmp_path,
        start_entry("req_1"),
        start_entry("open"),
        failed_entry(1),
        start_entry("full"),
        DropEntry("full"),
        failed_entry(2),
    )
    audit._write_all()
    failed = "upstream_error"
    assert outcomes() == {"req_1": failed, "req_2": failed, "open": "crashed"}
    assert not folder.exists()
    row = models.Exchange.objects.get(request_id="open")
    assert (row.status, row.error_code, row.configuration_version) == (0, "worker_lost", 7)
    assert (row.model, row.is_streaming, row.input_tokens) == ("moonshotai/kimi-k2", True, None)
    assert 8000 < row.duration_ms < 60_000
    assert row.group.family == "moonshotai/kimi"
    assert row.group.count == 1


def test_recovered_rows_are_not_stored_twice(audit, tmp_path):
    insert_batch([failed_entry(1), failed_entry(2)])
    dead_journal(
        tmp_path, start_entry("req_1"), failed_entry(1), start_entry("req_2"), failed_entry(3)
    )
    audit._write_all()
    assert outcomes().keys() == {"req_1", "req_2", "req_3"}
    assert models.FailureGroup.objects.get().count == 3
    assert sum(models.TrafficSum.objects.filter(span="day", facet="all").values_list("requests", flat=True)) == 3  # fmt: skip
    assert audit.dropped == 0


def test_a_commit_with_a_lost_answer_is_not_repeated(audit, monkeypatch):
    def store_and_fail(batch):
        insert_batch(batch)
        raise OperationalError("the connection is lost")

    for number in range(3):
        audit.add(failed_entry(number))
    with monkeypatch.context() as broken:
        broken.setattr("proxy.audit.recorder.insert_batch", store_and_fail)
        audit._write_all()
    assert (audit.pending, audit.is_behind) == (3, True)
    audit._write_all()
    assert (audit.pending, audit.dropped, audit.is_behind) == (0, 0, False)
    assert models.FailureGroup.objects.get().count == 3


def test_a_dead_journal_is_kept_while_the_database_is_down(audit, tmp_path, monkeypatch):
    folder = dead_journal(tmp_path, failed_entry(1), start_entry("open"))

    def refuse(batch):
        raise OperationalError("database down")

    with monkeypatch.context() as broken:
        broken.setattr("proxy.audit.recorder.insert_batch", refuse)
        audit._write_all()
    assert folder.exists()
    audit._write_all()
    assert len(outcomes()) == 2
    assert not folder.exists()


def test_journals_of_living_processes_are_left_alone(audit, tmp_path):
    folder = dead_journal(tmp_path, failed_entry(1))
    (tmp_path / "another file").write_text("x")
    lock = lock_journal(folder)
    audit._write_all()
    assert folder.exists()
    assert audit.journal.other_journals_bytes > 100
    os.close(lock)
    audit._recovered_at = -1000
    audit._write_all()
    assert outcomes().keys() == {"req_1"}


def test_an_unreadable_line_costs_only_itself(audit, tmp_path):
    folder = dead_journal(tmp_path, failed_entry(1))
    with (folder / "00000001.jsonl").open("ab") as file:
        file.write(b"\0\0\0\n{}\n" + encode(failed_entry(2)) + encode(failed_entry(3))[:50])
    audit._write_all()
    assert outcomes().keys() == {"req_1", "req_2"}


def test_a_deleted_journal_is_replaced(audit):
    entry = failed_entry(1)
    for path in (audit.journal.root / audit.journal.name).iterdir():
        path.unlink()
    audit.add(entry)
    audit._write_all()
    assert audit._is_journal_deleted
    audit._replace_journal()
    assert (audit.pending, audit.dropped) == (0, 1)
    audit.open_journal()
    audit.add(entry)
    audit._write_all()
    assert outcomes().keys() == {"req_1"}


@pytest.fixture
def start_gateway(upstream, tmp_path):
    """Starts gateways that the test kills. They are stopped afterwards if they still run."""
    gateways = []

    def make(**environment):
        gateway = Gateway(
            tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url, **environment
        )
        gateways.append(gateway)
        return gateway.start()

    yield make
    for gateway in gateways:
        if gateway.process.poll() is None:
            gateway.stop()


class Streams:
    """Open streams, each in a thread. `ends` says by request id which were complete."""

    def __init__(self, gateway, model, number):
        self.ids, self.ends = [], {}
        self._threads = [
            threading.Thread(target=self._read, args=(gateway, model), daemon=True)
            for _ in range(number)
        ]
        for thread in self._threads:
            thread.start()
        wait_for(lambda: len(self.ids) == number)

    def _read(self, gateway, model):
        with (
            httpx.Client(timeout=60, trust_env=False) as client,
            client.stream(
                "POST",
                f"{gateway.url}/v1/messages",
                json=ask(model, stream=True),
                headers={"x-api-key": KEY},
            ) as response,
        ):
            self.ids.append(name := response.headers["request-id"])
            try:
                self.ends[name] = "message_stop" in response.read().decode()
            except httpx.HTTPError:
                self.ends[name] = False

    def join(self):
        for thread in self._threads:
            thread.join(60)
        return self.ends


@of_sqlite
def test_a_killed_gateway_loses_no_ended_exchange_and_marks_open_ones(start_gateway, upstream):
    gateway = start_gateway()
    upstream.script("test/quick", says("Hi"))
    upstream.script("test/slow", reply(chunk({"content": "and then"}), Pause(60)))
    path = gateway.data_dir / "athena.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # locks the database
        with gateway.client() as client:
            ended = [
                client.post("/v1/messages", json=ask("test/quick")).headers["request-id"]
                for _ in range(5)
            ]
        streams = Streams(gateway, "test/slow", 3)
        gateway.stop(signal.SIGKILL)
        assert set(streams.join().values()) == {False}
        other.execute("ROLLBACK")
    assert gateway.rows("SELECT * FROM proxy_exchange") == []
    gateway.start()
    wait_for(lambda: len(gateway.rows("SELECT id FROM proxy_exchange")) == 8)
    rows = gateway.rows("SELECT request_id, outcome FROM proxy_exchange")
    expected = dict.fromkeys(ended, "ok") | dict.fromkeys(streams.ids, "crashed")
    assert {row["request_id"]: row["outcome"] for row in rows} == expected
    sums = gateway.rows(
        "SELECT sum(requests) AS n, sum(failures) AS f FROM proxy_trafficsum"
        " WHERE span = 'day' AND facet = 'all'"
    )
    assert sums == [{"n": 8, "f": 3}]
    wait_for(lambda: "3 had not" in gateway.log)


def workers_of(gateway):
    """The ids of the worker processes: those with a journal of their own."""
    children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children")
    return [int(pid) for pid in children.read_text().split() if has_journal(pid)]


def has_journal(pid):
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in the meantime
            if "/journal/" in os.readlink(link):
                return True
    return False


def test_other_workers_recover_the_rows_of_a_killed_worker(start_gateway, upstream):
    gateway = start_gateway(ATHENA_WORKERS="2")
    slow = [chunk({"content": "a"}), Pause(3), stream({"content": "b"})]
    upstream.script("test/slow", reply(*slow))
    wait_for(lambda: len(workers_of(gateway)) == 2)
    before = workers_of(gateway)
    streams = Streams(gateway, "test/slow", 8)
    os.kill(before[0], signal.SIGKILL)
    upstream.script("test/quick", says("Hi"))
    answered = []
    for _ in range(10):
        response = httpx.post(
            f"{gateway.url}/v1/messages", json=ask("test/quick"), headers={"x-api-key": KEY}
        )
        answered.append((response.status_code, response.headers.get("request-id")))
    assert {status for status, _ in answered} == {200}, "the other worker serves"
    ends = streams.join()
    expected = {name: "ok" if is_whole else "crashed" for name, is_whole in ends.items()}
    expected |= {name: "ok" for _, name in answered}
    wait_for(lambda: len(gateway.rows("SELECT id FROM proxy_exchange")) == 18)
    rows = gateway.rows("SELECT request_id, outcome FROM proxy_exchange")
    assert {row["request_id"]: row["outcome"] for row in rows} == expected
    assert len(rows) == len(expected), "no row twice"
    wait_for(lambda: len(workers_of(gateway)) == 2)
    assert set(workers_of(gateway)) != set(before), "there is a new worker"
