"""What is remembered of an exchange, and what never is."""

import asyncio
import contextlib
import json
import logging
import random
import resource
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connection

from formats import Notice, NoticeCode
from proxy import models
from proxy.audit.bulk_insert import _TRANSCRIPTS, insert_batch
from proxy.audit.capture import Capture, ClippedBytes, clip
from proxy.audit.exchange import Exchange
from proxy.audit.failure_groups import failure_fingerprint, leak_fingerprint, model_family
from proxy.audit.journal.entries import EndEntry, StartEntry, decode
from proxy.audit.journal.journal import Journal
from proxy.audit.recorder import AuditRecorder
from proxy.audit.sampling import TranscriptSampling
from proxy.audit.transcripts.codec import TranscriptContent, pack
from proxy.roles import ROLES
from proxy.security.redaction import Redactor
from tests.support.database import of_sqlite
from tests.support.wire import byte_cuts, stream


@pytest.mark.parametrize("limit", [2, 10, 100])
def test_a_clip_keeps_head_and_tail_however_the_bytes_come(limit):
    data = bytes(random.Random(1).randbytes(57))
    for parts in (
        [data],
        [data[at : at + 1] for at in range(57)],
        [data[:9], data[9:40], data[40:]],
    ):
        kept = ClippedBytes(limit)
        for part in parts:
            kept.add(part)
        assert kept.get() == clip(data, limit)
    head = limit // 2
    if limit < 57:
        assert clip(data, limit) == (data[:head] + data[-head:], head, 57 - 2 * head)
    else:
        assert clip(data, limit) == (data, 57, 0)


SECRETS = {
    "key": "sk-or-v1-0123456789abcdef0123",
    "github": "ghp_0123456789abcdef0123456789abcdef0123",
    "aws": "AKIA0123456789ABCDEF",
    "google": "AIza0123456789abcdef0123456789abcdef012",
    "slack": "xoxb-0123456789-abcdef",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    "bearer": "abcdef0123456789abcdef",
    "known": "the client's own key",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_every_kind_of_secret_is_taken_out(kind):
    redactor = Redactor(["the client's own key"])
    before = "Bearer " if kind == "bearer" else "it is "
    assert (
        redactor.redact_text(f"{before}{SECRETS[kind]}, you see")
        == f"{before}[redacted:{kind}], you see"
    )
    assert redactor.count == 1


def test_what_is_no_secret_stays():
    redactor = Redactor(["short", ""])
    text = "a task-force, desk-top, sk-8, Bearer of news, eyJ.a.b, short"
    assert (redactor.redact_text(text), redactor.count) == (text, 0)


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_secret_that_is_split_over_chunks_is_found(dialect):
    from formats import DIALECTS, MessageEnd, MessageStart, ReplyOptions, StopReason, TextDelta

    secret = SECRETS["key"]
    for at in range(1, len(secret)):
        wire = stream({"content": f"x {secret[:at]}"}, {"content": f"{secret[at:]} y"})
        if dialect == "anthropic":
            deltas = [TextDelta(f"x {secret[:at]}"), TextDelta(f"{secret[at:]} y")]
            events = [MessageStart("m", "m"), *deltas, MessageEnd(StopReason.END_TURN)]
            wire = DIALECTS["anthropic"].encoder(ReplyOptions()).feed(events)
        clean = Redactor().redact_stream(wire, dialect, is_suspect=True)
        assert "x [redacted:key] y" in clean.decode()


def test_bytes_that_are_no_text_are_kept():
    for part in byte_cuts(b"\xff\x00 plain \xfe", 2):
        assert b"".join(map(Redactor().redact_bytes, part)) == b"\xff\x00 plain \xfe"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("moonshotai/kimi-k2.5", "moonshotai/kimi"),
        ("qwen/qwen3-coder", "qwen/qwen"),
        ("deepseek-chat", "deepseek"),
        ("gpt-5", "gpt"),
        ("3-of-them", "3-of-them"),
    ],
)
def test_a_family_is_a_name_without_its_version(model, name):
    assert model_family(model) == name


@pytest.mark.django_db
def test_every_role_is_a_group_with_its_permissions():
    for name, codenames in ROLES.items():
        group = Group.objects.get(name=name)
        assert set(group.permissions.values_list("codename", flat=True)) == set(codenames)
    support = set(ROLES["support"])
    assert not {c for c in support if c.endswith(("upstream", "clientkey", "modelroute"))}
    assert "view_transcript" not in ROLES["operators"]
    assert json.dumps(sorted(ROLES)) == '["developers", "operators", "support"]'


@pytest.fixture
def one_connection(db, monkeypatch):
    """A test's transaction is in a connection that must not be closed."""
    monkeypatch.setattr("proxy.audit.recorder.renew_connection", lambda: None)


def entry(number, **fields):
    row = {
        "request_id": f"req_{number}",
        "created_at": datetime.now(UTC),
        "dialect": "anthropic",
        "model": "m",
        "status": 500,
        "outcome": "upstream_error",
        "format": "kimi",
        "error_code": "upstream_error",
        "error_phase": "answer",
        "upstream_model": "a/b",
        "duration_ms": 1,
        "gateway_ms": 1,
        "configuration_version": 1,
    }
    row |= fields
    return EndEntry(row, failure_fingerprint(row))


@pytest.mark.usefixtures("one_connection")
def test_a_row_that_the_database_refuses_is_dropped_alone():
    audit = AuditRecorder()
    for number in range(5):
        audit.add(entry(number, duration_ms=None if number == 2 else 1))
    audit._write_all()
    assert (audit.pending, audit.dropped) == (0, 1)
    kept = sorted(models.Exchange.objects.values_list("request_id", flat=True))
    assert kept == ["req_0", "req_1", "req_3", "req_4"]
    assert models.FailureGroup.objects.get().count == 4


@pytest.mark.usefixtures("one_connection")
def test_a_transcript_that_the_database_refuses_costs_no_row(monkeypatch, caplog):
    insert, refused = _TRANSCRIPTS.insert, pack(TranscriptContent(request="refused"))

    def insert_most(rows):
        rows = list(rows)
        if any(row["packed"] == refused for row in rows):
            raise IntegrityError
        insert(rows)

    monkeypatch.setattr(_TRANSCRIPTS, "insert", insert_most)
    audit = AuditRecorder()
    for number, packed in enumerate((pack(TranscriptContent()), refused)):
        kept = entry(number)
        audit.add(EndEntry(kept.exchange, kept.fingerprint, packed))
    audit._write_all()
    assert (audit.pending, audit.dropped) == (0, 0)
    assert models.Exchange.objects.count() == 2
    assert models.Transcript.objects.get().exchange.request_id == "req_0"
    assert "a transcript cannot be stored: IntegrityError" in caplog.text


@pytest.mark.usefixtures("one_connection")
def test_rows_wait_while_the_database_is_away(monkeypatch):
    def refuse(batch):
        raise OperationalError("gone")

    audit = AuditRecorder()
    audit.add(entry(1))
    with monkeypatch.context() as patch:
        patch.setattr("proxy.audit.recorder.insert_batch", refuse)
        audit._write_all()
    assert (audit.pending, audit.dropped) == (1, 0)
    audit._write_all()
    assert audit.pending == 0


@pytest.mark.usefixtures("one_connection")
def test_a_defect_of_the_audit_is_told_as_long_as_it_lasts(tmp_path, monkeypatch):
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


def is_stored():
    return models.Exchange.objects.count()


@of_sqlite
@pytest.mark.usefixtures("one_connection")
def test_rows_wait_while_the_file_is_read_only(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("athena"), "propagate", True)
    audit = AuditRecorder()
    audit.add(entry(1))
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        audit._write_all()
        cursor.execute("PRAGMA query_only = OFF")
    assert (audit.pending, audit.is_behind, audit.dropped, is_stored()) == (1, True, 0, 0)
    assert "attempt to write a readonly database" in caplog.text
    audit._write_all()
    assert (audit.pending, audit.is_behind, is_stored()) == (0, False, 1)


@of_sqlite
@pytest.mark.django_db(transaction=True)
def test_rows_wait_while_the_file_has_no_room(monkeypatch, caplog):
    monkeypatch.setattr("proxy.audit.recorder.renew_connection", lambda: None)
    monkeypatch.setattr(logging.getLogger("athena"), "propagate", True)
    audit = AuditRecorder()
    raw = random.Random(1).randbytes(2**20)
    audit.add(EndEntry(entry(1).exchange, None, pack(TranscriptContent(raw=raw))))
    with connection.cursor() as cursor:
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        audit._write_all()
        cursor.execute("PRAGMA max_page_count = 1000000")
    assert (audit.pending, audit.is_behind, audit.dropped, is_stored()) == (1, True, 0, 0)
    assert "database or disk is full" in caplog.text
    audit._write_all()
    assert (audit.pending, audit.is_behind, is_stored()) == (0, False, 1)
    assert models.Transcript.objects.get().content.raw == raw


@pytest.mark.usefixtures("one_connection")
def test_without_a_disk_a_little_is_kept_in_memory_and_the_rest_is_counted(monkeypatch):
    said = []
    monkeypatch.setattr("proxy.audit.recorder.logger.warning", lambda words, *_: said.append(words))
    monkeypatch.setattr("proxy.audit.recorder._MAX_MEMORY_BYTES", 1500)
    audit = AuditRecorder(Journal(Path("/proc/nowhere"), max_bytes=2**20))
    audit.open_journal()
    assert not audit.is_disk_writable
    for number in range(20):
        audit.add(entry(number))
    assert 0 < audit.pending < 20
    assert audit.pending + audit.dropped == 20
    kept = audit.pending
    assert len([words for words in said if "are dropped" in words]) == 1, "once a minute"
    audit._write_all()
    assert (audit.pending, is_stored()) == (0, kept)
    audit.add(entry(20))
    assert audit.pending == 1, "there is room again"


def test_a_disk_that_has_room_again_is_found_without_another_exchange(tmp_path, monkeypatch):
    monkeypatch.setattr("proxy.audit.recorder._WRITE_INTERVAL", 0.01)
    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**20))
    audit.open_journal()
    monkeypatch.setattr(audit, "_write_all", lambda: None)  # the database is away

    async def run(seconds):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(audit.run(), seconds)

    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        audit.add(entry(1))
        was_full = not audit.is_disk_writable
        asyncio.run(run(0.2))
        stayed_full = not audit.is_disk_writable
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    assert (was_full, stayed_full) == (True, True)
    asyncio.run(run(0.2))
    assert audit.is_disk_writable
    assert not list(tmp_path.rglob(".room"))
    audit.journal.close()


def test_what_is_in_memory_at_the_end_goes_to_a_disk_that_has_room_by_then(tmp_path, monkeypatch):
    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**20))
    audit.open_journal()
    monkeypatch.setattr(audit, "_write_all", lambda: None)  # the database is away
    with monkeypatch.context() as broken:
        broken.setattr("proxy.audit.journal.journal.os.write", lambda *_: 0)
        audit.add(entry(1))
    assert (audit.is_disk_writable, len(audit._memory)) == (False, 1)
    asyncio.run(audit.stop())
    (path,) = tmp_path.rglob("*.jsonl")
    assert decode(path.read_bytes()).exchange["request_id"] == "req_1"
    assert audit.dropped == 0


def test_the_first_format_that_leaked_is_known_until_another_attempt_begins():
    exchange = Exchange("anthropic")
    seen = [Notice(NoticeCode.NATIVE_MARKUP_SEEN, name) for name in ("kimi", "qwen", "kimi")]
    exchange.answer.add_events(seen)
    assert exchange.answer.leaked_format == "kimi"
    assert exchange.answer.notices == {seen[0]: 2, seen[1]: 1}
    exchange.start_attempt(SimpleNamespace(upstream=SimpleNamespace(secrets=tuple)))
    assert (exchange.answer.leaked_format, exchange.answer.notices) == ("", {})


def test_an_exchange_is_in_the_journal_from_its_beginning_to_its_end(tmp_path):
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
    begun, ended = (decode(line) for line in path.read_bytes().splitlines())
    audit.journal.close()
    assert isinstance(begun, StartEntry)
    assert begun.exchange == {name: ended.exchange[name] for name in begun.exchange}
    assert (begun.exchange["model"], ended.exchange["status"]) == ("[redacted:key]", 200)
    assert b"own key" not in path.read_bytes()


@pytest.mark.django_db
def test_hundreds_of_failures_of_one_kind_cost_a_handful_of_queries(django_assert_max_num_queries):
    with django_assert_max_num_queries(40):
        insert_batch([entry(n) for n in range(500)])
    assert models.FailureGroup.objects.get().count == 500


def test_events_are_bounded_with_the_bytes_that_they_came_from():
    from formats import TextDelta

    kept = Capture(b"", 4096)
    for number in range(10_000):
        kept.add_raw(b"x" * 10)
        kept.add_events([TextDelta(str(number))])
    head, tail = kept.events.get()
    assert [head[0].text, tail[-1].text] == ["0", "9999"]
    assert len(head) + len(tail) + kept.events.left_out == 10_000
    assert (len(head), len(tail)) == (205, 205)


def test_a_defect_in_a_transcript_costs_the_transcript_alone(monkeypatch, caplog):
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


def test_an_hour_keeps_only_so_many_transcripts_of_one_kind_of_trouble():
    sampling = SimpleNamespace(failures_per_hour=2, sample_others=0)
    exchange = Exchange("anthropic")
    exchange.capture = Capture(b"", 1000)
    exchange.request.snapshot = SimpleNamespace(sampling=sampling)
    exchange.request.created_at = datetime(2026, 1, 1, 10, tzinfo=UTC)
    exchange.answer.route = SimpleNamespace(sample_calls=0)
    exchange.answer.tool_calls = 1
    row = {"leaked_format": "kimi", "upstream_model": "acme/harbor-1"}
    sampler = TranscriptSampling()
    assert leak_fingerprint(row | {"leaked_format": ""}) is None
    assert [sampler.keeps(exchange, leak_fingerprint(row)) for _ in range(3)] == [True, True, False]
    assert sampler.keeps(exchange, leak_fingerprint(row | {"leaked_format": "qwen"}))
    exchange.request.created_at += timedelta(hours=1)
    assert sampler.keeps(exchange, leak_fingerprint(row))
    assert not sampler.keeps(exchange, None)
