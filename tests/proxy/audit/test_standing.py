"""What stands in a session's requests is stored once, and each transcript has all of its own."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec
import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from lz4.block import decompress

import formats.standing
from proxy.audit import standing
from proxy.audit.bulk_insert import write
from proxy.audit.journal.entries import Entry, decode
from proxy.audit.journal.journal import Journal, segments
from proxy.audit.journal.reader import Reader
from proxy.audit.journal.recovery import adopt
from proxy.audit.recorder import Audit
from proxy.audit.retention import prune
from proxy.audit.row import record
from proxy.audit.transcripts.assembly import packed_transcript
from proxy.audit.transcripts.codec import Unreadable, unpack
from proxy.database.clock import clock
from proxy.models import Exchange, GatewaySettings, Standing, Transcript
from proxy.security.redaction import Redactor
from tests.support.answered_exchanges import SYSTEM, answered, parsed, turn
from tests.support.database import of_postgres

SAID = ["Which tide is it?", "The ebb.", "And in Bergen?"]
TURNS = [turn(*SAID[: 2 * number + 1], SAID[1], f"{number}") for number in range(4)]
KEY = "sk-clients-own-0123456789abcdef"


@pytest.fixture(autouse=True)
def _known(monkeypatch):
    """What stands in the turns has been met, and nothing else."""
    monkeypatch.setattr("formats.anthropic.request_parser._standing", formats.standing.Standing())
    standing._known.clear()
    for _ in range(3):
        parsed(TURNS[0])


@pytest.fixture
def audit(tmp_path, monkeypatch):
    monkeypatch.setattr("proxy.audit.recorder.renew_connection", lambda: None)
    audit = Audit(Journal(tmp_path, most_bytes=2**24))
    audit.start()
    yield audit
    audit.journal.close()


def kept(body, **fields):
    exchange = answered(body, "Hello ", "there", **fields)
    return packed_transcript(exchange, Redactor(exchange.secrets))


def test_turns_share_what_stands_in_them_and_are_whole_when_they_are_opened():
    stored = [kept(body) for body in TURNS]
    assert len({stands.digest for _, stands in stored}) == 1
    for body, (packed, stands) in zip(TURNS, stored, strict=True):
        assert len(packed) < 2000 < len(body)
        said = unpack(packed, stands.packed)
        assert said.request == body.decode()
        assert [tool["name"] for tool in said.tools] == ["get_tide"]


def test_what_is_met_first_is_kept_with_its_transcript():
    body = turn("Hi", system=f"{SYSTEM} Once.")
    packed, stands = kept(body)
    assert stands is None
    assert unpack(packed).request == body.decode()


def test_the_version_before_does_not_take_the_messages_for_the_request():
    class Before(msgspec.Struct):
        request: bytes
        tools: msgspec.Raw
        raw: bytes
        sent: bytes
        facts: bytes

    def read(packed):
        return msgspec.msgpack.decode(decompress(packed), type=Before)

    first, _ = kept(turn("Hi", system=f"{SYSTEM} Once."))
    assert read(first).request
    packed, _ = kept(TURNS[1])
    with pytest.raises(msgspec.ValidationError, match="tools"):
        read(packed)


def test_a_transcript_is_not_opened_with_what_stands_in_another():
    packed, stands = kept(TURNS[1])
    other = turn("Hi", system=f"{SYSTEM} Other.")
    for _ in range(3):
        parsed(other)
    _, others = kept(other)
    assert others.digest != stands.digest
    for wrong in (b"", others.packed, stands.packed[:-1], stands.packed + b"\0"):
        with pytest.raises(Unreadable):
            unpack(packed, wrong)


@pytest.mark.parametrize(
    ("fields", "secrets"),
    [
        ({"system": f"{SYSTEM} The key is sk-0123456789abcdef0123."}, []),
        ({"metadata": {"user_id": "u" * 300 + " ghp_" + "a" * 36}}, []),
        ({"system": f"{SYSTEM} {KEY}"}, [KEY]),
    ],
    ids=["looks like one", "behind the messages", "known"],
)
def test_where_a_secret_stands_each_transcript_has_its_own(fields, secrets):
    body = turn("Hi", **fields)
    for _ in range(3):
        parsed(body)
    assert parsed(body).around is not None
    packed, stands = kept(body, secrets=secrets)
    said = unpack(packed)
    assert stands is None
    assert "redacted" in said.request
    assert not any(secret in said.request for secret in (KEY, "sk-0123", "ghp_"))


def test_what_one_clients_secret_is_not_in_may_be_anothers():
    words = SYSTEM[:20]
    assert kept(TURNS[1])[1] is not None
    packed, stands = kept(TURNS[1], secrets=[words])
    assert stands is None
    assert words not in unpack(packed).request


PEM = "-----BEGIN RSA PRIVATE KEY-----"


@pytest.mark.parametrize("said", [f"My key is {KEY}.", PEM], ids=["known", "without an end"])
def test_a_request_of_which_something_is_taken_out_is_kept_whole(said):
    """What begins in the messages may end behind them."""
    body = turn(said)
    assert parsed(body).around is not None
    packed, stands = kept(body, secrets=[KEY])
    assert stands is None
    assert unpack(packed).request == Redactor([KEY]).redact(body).decode()
    assert unpack(packed).redactions == 1


def test_a_tool_whose_name_spells_a_secret_otherwise_is_not_shared():
    tools = [{"name": "open-sesame", "input_schema": {"type": "object"}}]
    body = turn("Hi", tools=tools).replace(b"open-sesame", rb"\u006fpen-sesame")
    for _ in range(3):
        parsed(body)
    assert kept(body)[1] is not None
    packed, stands = kept(body, secrets=["open-sesame"])
    assert stands is None
    assert unpack(packed).tools[0]["name"] == "[redacted:known]"


def test_a_request_that_is_not_kept_whole_is_kept_apart():
    body = turn("Hi " * 9000)
    packed, stands = kept(body, limit=20_000)
    assert stands is None
    assert unpack(packed).left_out["request"][1] == len(body) - 20_000


def test_little_is_remembered(monkeypatch):
    monkeypatch.setattr(standing, "_MOST_BYTES", 200_000)
    for number in range(100):
        body = turn("Hi", metadata={"user_id": f"{number:0300}"})
        for _ in range(3):
            parsed(body)
        assert kept(body)[1] is not None
    assert 5 < len(standing._known) < 20
    for number in range(300):
        kept(body, secrets=[f"secret-of-client-{number}"])
    (*_, last) = standing._known.values()
    assert len(last.verdicts) <= standing._MOST_CLIENTS


def test_clients_without_number_share_what_stands(audit, monkeypatch):
    monkeypatch.setattr(standing, "_MOST_BYTES", 0)  # nothing is remembered from turn to turn
    for number in range(50):
        audit.submit(answered(TURNS[1], "Hello", secrets=[f"secret-of-client-{number}"]), 200)
    entries = [line.entry for line in audit.journal._recent._lines if line.entry is not None]
    assert len(entries) == 50
    assert len({id(entry.standing.packed) for entry in entries}) == 1


@pytest.mark.django_db
def test_a_session_is_stored_with_one_row_of_what_stands(audit):
    for body in TURNS:
        audit.submit(answered(body, "Hello"), 200)
    audit._write_all()
    assert (audit.waiting, audit.dropped) == (0, 0)
    stands = Standing.objects.get()
    rows = Transcript.objects.select_related("standing").order_by("exchange_id")
    assert [row.said.request for row in rows] == [body.decode() for body in TURNS]
    assert {row.standing for row in rows} == {stands}
    with pytest.raises(IntegrityError), transaction.atomic():
        stands.delete()


@pytest.mark.django_db
@pytest.mark.parametrize("room", [0, 5000, 30_000, 2**24])
def test_every_segment_of_the_journal_tells_what_stands(audit, monkeypatch, room):
    """Whichever lines are remembered, and whichever are read from disk."""
    monkeypatch.setattr("proxy.audit.journal.reader._RECENT_BYTES", room)
    monkeypatch.setattr("proxy.audit.journal.reader._BATCH_LINES", 3)
    monkeypatch.setattr("proxy.audit.journal.journal._SEGMENT_BYTES", 25_000)
    for _ in range(10):
        for body in TURNS:
            audit.submit(answered(body, "Hello"), 200)
    folder = audit.journal.root / audit.journal.name
    ends = segments(folder)
    assert len(ends) > 3
    for end in ends:
        lines = (folder / f"{end.segment:08}.jsonl").read_bytes().splitlines()
        told = [bool(decode(line).standing.packed) for line in lines]
        assert told == [True] + [False] * (len(lines) - 1)
    audit._write_all()
    requests = [row.said.request for row in Transcript.objects.order_by("exchange_id")]
    assert requests == [body.decode() for body in TURNS] * 10


@pytest.mark.django_db
def test_what_a_killed_process_leaves_is_stored_whole(tmp_path):
    journal = Journal(tmp_path, most_bytes=2**24)
    journal.open()
    audit = Audit(journal)
    for body in TURNS:
        audit.submit(answered(body, "Hello"), 200)
    os.close(journal._lock)
    adopt(tmp_path / journal.name, write)
    requests = [row.said.request for row in Transcript.objects.order_by("exchange_id")]
    assert requests == [body.decode() for body in TURNS]


def test_where_the_line_is_lost_that_told_it_the_rows_are_left(tmp_path):
    journal = Journal(tmp_path, most_bytes=2**24)
    journal.open()
    audit = Audit(journal)
    for body in TURNS:
        audit.submit(answered(body, "Hello"), 200)
    folder = tmp_path / journal.name
    (end,) = segments(folder)
    path = folder / "00000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([b"?" * (len(lines[0]) - 1) + b"\n", *lines[1:]]))
    ((lost, *rest),) = Reader(folder).batches(end)
    assert lost is None
    assert [(line.packed, line.standing) for line in rest] == [(None, None)] * 3
    journal.close()


def test_a_line_that_the_disk_did_not_take_has_told_nothing(audit, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "full")

    first, second = (answered(body, "Hello") for body in TURNS[:2])
    with monkeypatch.context() as patch:
        patch.setattr("proxy.audit.journal.journal._write", refuse)
        audit.submit(first, 200)
    audit.submit(second, 200)
    line = (audit.journal.root / audit.journal.name / "00000001.jsonl").read_bytes()
    assert decode(line).standing.packed


@pytest.mark.django_db
def test_what_no_transcript_has_any_more_is_deleted_after_a_day(audit):
    GatewaySettings.objects.create(pk=1, transcript_days=7, exchange_days=90)
    audit.submit(answered(TURNS[1], "Hello"), 200)
    audit._write_all()
    today = clock.now()
    Standing.objects.update(used_on=today.date() - timedelta(days=30))
    assert prune(now=today)["standing parts of requests"] == 0, "a transcript has it"
    audit.submit(answered(TURNS[2], "Hello"), 200)
    audit._write_all()
    assert Standing.objects.get().used_on == today.date()
    Transcript.objects.all().delete()
    assert prune(now=today)["standing parts of requests"] == 0, "it was in use a moment ago"
    assert prune(now=today + timedelta(days=2))["standing parts of requests"] == 1
    assert not Standing.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("option", ["--content", None])
def test_what_is_erased_leaves_nothing_that_stood_in_it(audit, option):
    for body in TURNS[:2]:
        audit.submit(answered(body, "Hello"), 200)
    audit._write_all()
    one, other = Exchange.objects.order_by("id").values_list("request_id", flat=True)
    call_command("erase", "--request", one, *filter(None, [option]))
    assert Transcript.objects.get().said.request == TURNS[1].decode()
    call_command("erase", "--request", other, *filter(None, [option]))
    assert not Standing.objects.exists()


@pytest.mark.django_db
def test_an_erasure_that_was_cut_short_is_finished_by_the_next(audit):
    audit.submit(answered(TURNS[1], "Hello"), 200)
    audit._write_all()
    Exchange.objects.all().delete()
    assert Standing.objects.exists()
    call_command("erase", "--request", "req_gone")
    assert not Standing.objects.exists()


@pytest.mark.django_db
def test_what_goes_with_its_exchanges_takes_what_stood_in_it_the_same_day(audit):
    GatewaySettings.objects.create(pk=1, transcript_days=3650, exchange_days=30)
    audit.submit(answered(TURNS[1], "Hello"), 200)
    audit._write_all()
    prune(now=clock.now() + timedelta(days=40))
    assert not Exchange.objects.exists()
    assert not Standing.objects.exists()


def store(number):
    exchange = answered(TURNS[number % 4], "Hello")
    packed, stands = packed_transcript(exchange, Redactor())
    row = record(exchange, 200, lambda text, length: text[:length])
    write([Entry(row, None, None, packed, stands)])
    return row["request_id"]


@pytest.mark.django_db(transaction=True)
@of_postgres
def test_writers_and_erasers_at_once_lose_nothing_and_leave_nothing():
    """Each of them takes and lets go of the same row, over and over."""
    until = time.monotonic() + 5

    def write_some():
        stored = []
        while time.monotonic() < until:
            stored.append(store(len(stored)))
        connection.close()
        return stored

    def erase_some():
        erased = set()
        while time.monotonic() < until:
            rows = Exchange.objects.order_by("id").values_list("request_id", flat=True)
            for request_id in rows[:3]:
                call_command("erase", "--request", request_id)
                erased.add(request_id)
        connection.close()
        return erased

    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write_some) for _ in range(3)]
        erasers = [pool.submit(erase_some) for _ in range(2)]
        stored = {name for writer in writers for name in writer.result()}
        erased = {name for eraser in erasers for name in eraser.result()}
    assert len(stored) > 50
    assert len(erased) > 5
    rows = Transcript.objects.select_related("exchange", "standing")
    assert {row.exchange.request_id for row in rows} == stored - erased
    assert {row.said.request for row in rows} <= {body.decode() for body in TURNS}
    Exchange.objects.all().delete()
    call_command("erase", "--request", "req_gone")
    assert not Standing.objects.exists()
