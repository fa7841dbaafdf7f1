"""The recorder: rows reach the database, and wait while it or the disk is unavailable."""

import asyncio
import logging
import random
import resource
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import IntegrityError, OperationalError, connection

from formats import Notice, NoticeCode
from proxy import models
from proxy.audit.bulk_insert import _TRANSCRIPTS
from proxy.audit.exchange import Exchange
from proxy.audit.journal.entries import EndEntry, StartEntry, decode
from proxy.audit.journal.journal import Journal
from proxy.audit.recorder import AuditRecorder
from proxy.audit.sampling import TranscriptSampling
from proxy.audit.transcripts.assembly import transcript_of
from proxy.audit.transcripts.codec import TranscriptContent, pack
from tests.support.answered_exchanges import answered, turn
from tests.support.database import of_sqlite
from tests.support.journal_entries import failed_entry


@pytest.mark.usefixtures("one_connection")
def test_only_the_row_that_the_database_refuses_is_dropped():
    audit = AuditRecorder()
    for number in range(5):
        audit.add(failed_entry(number, duration_ms=None if number == 2 else 1))
    audit._write_all()
    assert (audit.pending, audit.dropped) == (0, 1)
    kept = sorted(models.Exchange.objects.values_list("request_id", flat=True))
    assert kept == ["req_0", "req_1", "req_3", "req_4"]
    assert models.FailureGroup.objects.get().count == 4


@pytest.mark.usefixtures("one_connection")
def test_a_row_is_stored_without_its_transcript_if_the_database_refuses_that(monkeypatch, caplog):
    insert, refused = _TRANSCRIPTS.insert, pack(TranscriptContent(request="refused"))

    def insert_unless_refused(rows):
        rows = list(rows)
        if any(row["packed"] == refused for row in rows):
            raise IntegrityError
        insert(rows)

    monkeypatch.setattr(_TRANSCRIPTS, "insert", insert_unless_refused)
    audit = AuditRecorder()
    for number, packed in enumerate((pack(TranscriptContent()), refused)):
        kept = failed_entry(number)
        audit.add(EndEntry(kept.exchange, kept.fingerprint, packed))
    audit._write_all()
    assert (audit.pending, audit.dropped) == (0, 0)
    assert models.Exchange.objects.count() == 2
    assert models.Transcript.objects.get().exchange.request_id == "req_0"
    assert "a transcript cannot be stored: IntegrityError" in caplog.text


@pytest.mark.usefixtures("one_connection")
def test_rows_wait_while_the_database_is_down(monkeypatch):
    def refuse(batch):
        raise OperationalError("database down")

    audit = AuditRecorder()
    audit.add(failed_entry(1))
    with monkeypatch.context() as patch:
        patch.setattr("proxy.audit.recorder.insert_batch", refuse)
        audit._write_all()
    assert (audit.pending, audit.dropped) == (1, 0)
    audit._write_all()
    assert audit.pending == 0


@pytest.mark.usefixtures("one_connection")
def test_a_failing_recovery_is_reported_until_it_succeeds(tmp_path, monkeypatch):
    def defective(journal, store):
        raise RuntimeError("a defect")

    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**20))
    audit.open_journal()
    with monkeypatch.context() as patch:
        patch.setattr("proxy.audit.recorder.recover_dead_journals", defective)
        audit._write_all()
    assert audit.is_behind
    audit._write_all()
    assert not audit.is_behind
    audit.journal.close()


def stored_rows():
    return models.Exchange.objects.count()


@of_sqlite
@pytest.mark.usefixtures("one_connection")
def test_rows_wait_while_the_database_file_is_read_only(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("athena"), "propagate", True)
    audit = AuditRecorder()
    audit.add(failed_entry(1))
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        audit._write_all()
        cursor.execute("PRAGMA query_only = OFF")
    assert (audit.pending, audit.is_behind, audit.dropped, stored_rows()) == (1, True, 0, 0)
    assert "attempt to write a readonly database" in caplog.text
    audit._write_all()
    assert (audit.pending, audit.is_behind, stored_rows()) == (0, False, 1)


@of_sqlite
@pytest.mark.django_db(transaction=True)
def test_rows_wait_while_the_database_file_is_full(monkeypatch, caplog):
    monkeypatch.setattr("proxy.audit.recorder.renew_connection", lambda: None)
    monkeypatch.setattr(logging.getLogger("athena"), "propagate", True)
    audit = AuditRecorder()
    raw = random.Random(1).randbytes(2**20)
    audit.add(EndEntry(failed_entry(1).exchange, None, pack(TranscriptContent(raw=raw))))
    with connection.cursor() as cursor:
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        audit._write_all()
        cursor.execute("PRAGMA max_page_count = 1000000")
    assert (audit.pending, audit.is_behind, audit.dropped, stored_rows()) == (1, True, 0, 0)
    assert "database or disk is full" in caplog.text
    audit._write_all()
    assert (audit.pending, audit.is_behind, stored_rows()) == (0, False, 1)
    assert models.Transcript.objects.get().content.raw == raw


@pytest.mark.usefixtures("one_connection")
def test_without_a_disk_a_few_rows_are_kept_in_memory_and_the_rest_is_counted(monkeypatch):
    warnings = []
    monkeypatch.setattr(
        "proxy.audit.recorder.logger.warning", lambda text, *_: warnings.append(text)
    )
    monkeypatch.setattr("proxy.audit.recorder._MAX_MEMORY_BYTES", 1500)
    audit = AuditRecorder(Journal(Path("/proc/nowhere"), max_bytes=2**20))
    audit.open_journal()
    assert not audit.is_disk_writable
    for number in range(20):
        audit.add(failed_entry(number))
    assert 0 < audit.pending < 20
    assert audit.pending + audit.dropped == 20
    kept = audit.pending
    assert len([text for text in warnings if "are dropped" in text]) == 1, "once a minute"
    audit._write_all()
    assert (audit.pending, stored_rows()) == (0, kept)
    audit.add(failed_entry(20))
    assert audit.pending == 1, "there is room again"


def test_a_disk_that_has_room_again_is_noticed_without_traffic(tmp_path, monkeypatch):
    monkeypatch.setattr("proxy.audit.recorder._WRITE_INTERVAL", 0.01)
    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**20))
    audit.open_journal()
    monkeypatch.setattr(audit, "_write_all", lambda: None)  # the database is down

    async def run(rounds):
        """Run until the disk is writable, but at most this many times the interval."""
        task = asyncio.create_task(audit.run())
        for _ in range(rounds):
            if audit.is_disk_writable:
                break
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        audit.add(failed_entry(1))
        was_full = not audit.is_disk_writable
        asyncio.run(run(20))
        stayed_full = not audit.is_disk_writable
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (was_full, stayed_full) == (True, True)
    asyncio.run(run(6000))
    assert audit.is_disk_writable
    assert not list(tmp_path.rglob(".room"))
    audit.journal.close()


def test_stop_writes_rows_from_memory_to_a_disk_that_has_room_again(tmp_path, monkeypatch):
    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**20))
    audit.open_journal()
    monkeypatch.setattr(audit, "_write_all", lambda: None)  # the database is down
    with monkeypatch.context() as broken:
        broken.setattr("proxy.audit.journal.journal.os.write", lambda *_: 0)
        audit.add(failed_entry(1))
    assert (audit.is_disk_writable, len(audit._memory)) == (False, 1)
    asyncio.run(audit.stop())
    (path,) = tmp_path.rglob("*.jsonl")
    assert decode(path.read_bytes()).exchange["request_id"] == "req_1"
    assert audit.dropped == 0


def test_the_first_leaked_format_is_recorded_per_attempt():
    exchange = Exchange("anthropic")
    notices = [Notice(NoticeCode.NATIVE_MARKUP_SEEN, name) for name in ("kimi", "qwen", "kimi")]
    exchange.answer.add_events(notices)
    assert exchange.answer.leaked_format == "kimi"
    assert exchange.answer.notices == {notices[0]: 2, notices[1]: 1}
    exchange.start_attempt(SimpleNamespace(upstream=SimpleNamespace(secrets=tuple)))
    assert (exchange.answer.leaked_format, exchange.answer.notices) == ("", {})


def test_the_first_family_that_auto_read_is_recorded_per_attempt():
    exchange = Exchange("anthropic")
    exchange.answer.add_events([Notice(NoticeCode.FAMILY_READ, name) for name in ("glm", "qwen")])
    assert exchange.answer.family_read == "glm"
    exchange.start_attempt(SimpleNamespace(upstream=SimpleNamespace(secrets=tuple)))
    assert exchange.answer.family_read == ""


def test_the_journal_has_the_start_and_the_end_of_an_exchange(tmp_path):
    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**20))
    audit.open_journal()
    exchange = Exchange("anthropic")
    exchange.request.snapshot = SimpleNamespace(version=3)
    exchange.request.model = "sk-0123456789abcdef0123"
    exchange.request.headers = {"user-agent": "the client's own key"}
    exchange.redactor.add_secrets(["the client's own key"])
    audit.record_start(exchange)
    audit.record_end(exchange, 200)
    path = tmp_path / audit.journal.name / "00000001.jsonl"
    start, end = (decode(line) for line in path.read_bytes().splitlines())
    audit.journal.close()
    assert isinstance(start, StartEntry)
    assert start.exchange == {name: end.exchange[name] for name in start.exchange}
    assert (start.exchange["model"], end.exchange["status"]) == ("[redacted:key]", 200)
    assert b"own key" not in path.read_bytes()


def test_a_defect_while_building_a_transcript_costs_only_the_transcript(monkeypatch, caplog):
    def fail(*_):
        raise ValueError("canary of the content")

    monkeypatch.setattr("proxy.audit.recorder.transcript_of", fail)
    monkeypatch.setattr(TranscriptSampling, "keeps", lambda *_: True)
    monkeypatch.setattr(logging.getLogger("athena"), "propagate", True)
    exchange, audit = Exchange("anthropic"), AuditRecorder()
    exchange.request.snapshot = SimpleNamespace(version=1)
    audit.record_end(exchange, 200)
    assert (audit.pending, audit._memory[0][0].packed) == (1, None)
    assert "ValueError" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize(("size", "is_in_thread"), [(100, False), (100_000, True)])
def test_the_transcript_of_a_long_exchange_is_built_in_a_thread(
    tmp_path, monkeypatch, size, is_in_thread
):
    """N14: text full of marks like those of secrets takes long to redact."""
    threads = []

    def build(exchange):
        threads.append(threading.get_ident())
        return transcript_of(exchange)

    monkeypatch.setattr("proxy.audit.recorder.transcript_of", build)
    monkeypatch.setattr(TranscriptSampling, "keeps", lambda *_: True)
    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**24))
    monkeypatch.setattr(audit, "_write_all", lambda: None)
    audit.open_journal()
    body = turn("sk-a " * (size // 5))

    async def record():
        audit.record_end(answered(body, "Hello"), 200)
        assert audit.pending == 1
        await audit.flush()

    asyncio.run(record())
    assert (threads != [threading.get_ident()]) == is_in_thread
    (line,) = (tmp_path / audit.journal.name / "00000001.jsonl").read_bytes().splitlines()
    audit.journal.close()
    assert decode(line).packed is not None
