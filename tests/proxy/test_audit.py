"""What is remembered of an exchange, and what never is."""

import json
import logging
import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError

from proxy import models
from proxy.audit import Audit, Entry, write
from proxy.capture import Capture, Clip, clip
from proxy.exchange import Exchange
from proxy.failures import family, fingerprint, leak_mark
from proxy.redaction import Redactor
from proxy.roles import ROLES
from tests.formats.wire import byte_cuts, stream


@pytest.mark.parametrize("limit", [2, 10, 100])
def test_a_clip_keeps_head_and_tail_however_the_bytes_come(limit):
    data = bytes(random.Random(1).randbytes(57))
    for parts in (
        [data],
        [data[at : at + 1] for at in range(57)],
        [data[:9], data[9:40], data[40:]],
    ):
        kept = Clip(limit)
        for part in parts:
            kept.add(part)
        assert kept.take() == clip(data, limit)
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
        redactor.text(f"{before}{SECRETS[kind]}, you see") == f"{before}[redacted:{kind}], you see"
    )
    assert redactor.count == 1


def test_what_is_no_secret_stays():
    redactor = Redactor(["short", ""])
    text = "a task-force, desk-top, sk-8, Bearer of news, eyJ.a.b, short"
    assert (redactor.text(text), redactor.count) == (text, 0)


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
        clean = Redactor().stream(wire, dialect, is_suspect=True)
        assert "x [redacted:key] y" in clean.decode()


def test_bytes_that_are_no_text_are_kept():
    for part in byte_cuts(b"\xff\x00 plain \xfe", 2):
        assert b"".join(map(Redactor().redact, part)) == b"\xff\x00 plain \xfe"


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
    assert family(model) == name


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
    monkeypatch.setattr("proxy.audit.close_old_connections", lambda: None)


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
    return Entry(row, None, fingerprint(row))


@pytest.mark.usefixtures("one_connection")
def test_a_row_that_the_database_refuses_is_dropped_alone():
    audit = Audit()
    audit._waiting.extend(entry(n, duration_ms=None if n == 2 else 1) for n in range(5))
    audit._write_all()
    assert (audit.waiting, audit.dropped) == (0, 1)
    kept = sorted(models.Exchange.objects.values_list("request_id", flat=True))
    assert kept == ["req_0", "req_1", "req_3", "req_4"]
    assert models.FailureGroup.objects.get().count == 4


@pytest.mark.usefixtures("one_connection")
def test_rows_wait_while_the_database_is_away(monkeypatch):
    def refuse(batch):
        raise OperationalError("gone")

    audit = Audit()
    audit._waiting.append(entry(1))
    with monkeypatch.context() as patch:
        patch.setattr("proxy.audit.write", refuse)
        audit._write_all()
    assert (audit.waiting, audit.dropped) == (1, 0)
    audit._write_all()
    assert audit.waiting == 0


@pytest.mark.django_db
def test_hundreds_of_failures_of_one_kind_cost_a_handful_of_queries(django_assert_max_num_queries):
    with django_assert_max_num_queries(40):
        write([entry(n) for n in range(500)])
    assert models.FailureGroup.objects.get().count == 500


def test_events_are_bounded_with_the_bytes_that_they_came_from():
    from formats import TextDelta

    kept = Capture(b"", 4096)
    for number in range(10_000):
        kept.received(b"x" * 10)
        kept.understood([TextDelta(str(number))])
    head, tail = kept.events.take()
    assert [head[0].text, tail[-1].text] == ["0", "9999"]
    assert len(head) + len(tail) + kept.events.left_out == 10_000
    assert (len(head), len(tail)) == (205, 205)


def test_a_defect_in_a_transcript_costs_the_transcript_alone(monkeypatch, caplog):
    def fail(*_):
        raise ValueError("canary of the content")

    monkeypatch.setattr("proxy.audit.transcript_fields", fail)
    monkeypatch.setattr(Audit, "_keeps", lambda *_: True)
    monkeypatch.setattr(logging.getLogger("athena"), "propagate", True)
    exchange, audit = Exchange("anthropic"), Audit()
    exchange.snapshot = SimpleNamespace(version=1)
    audit.submit(exchange, 200)
    assert (audit.waiting, audit._waiting[0].transcript) == (1, None)
    assert "ValueError" in caplog.text
    assert "canary" not in caplog.text


def test_an_hour_keeps_only_so_many_transcripts_of_one_kind_of_trouble():
    sampling = SimpleNamespace(failures_per_hour=2, sample_others=0)
    exchange = SimpleNamespace(
        capture=object(),
        snapshot=SimpleNamespace(sampling=sampling),
        route=SimpleNamespace(sample_calls=0),
        calls=1,
        created_at=datetime(2026, 1, 1, 10, tzinfo=UTC),
    )
    row = {"leaked_format": "kimi", "upstream_model": "acme/harbor-1"}
    audit = Audit()
    assert leak_mark(row | {"leaked_format": ""}) is None
    assert [audit._keeps(exchange, leak_mark(row)) for _ in range(3)] == [True, True, False]
    assert audit._keeps(exchange, leak_mark(row | {"leaked_format": "qwen"}))
    exchange.created_at += timedelta(hours=1)
    assert audit._keeps(exchange, leak_mark(row))
    assert not audit._keeps(exchange, None)
