"""Transcripts of the version before, which shared parts of requests, stay readable until they go."""

import json
from datetime import timedelta
from hashlib import sha256

import msgspec
import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction
from lz4.block import compress, decompress

from proxy.audit.journal.journal import Journal, segment_ends
from proxy.audit.journal.reader import JournalReader
from proxy.audit.recorder import AuditRecorder
from proxy.audit.retention import prune
from proxy.audit.transcripts.assembly import transcript_of
from proxy.audit.transcripts.codec import Unreadable, pack, unpack
from proxy.database.clock import clock
from proxy.models import Exchange, GatewaySettings, Standing, Transcript
from tests.support.answered_exchanges import answered, turn
from tests.support.stored_exchanges import exchange_row

BODIES = [turn("Which tide is it?", *["The ebb."] * number) for number in range(4)]
BEFORE, _, REST = BODIES[0].partition(b'"messages": ')
AFTER = b', "tools":' + REST.partition(b', "tools":')[2]
TOOLS = msgspec.msgpack.decode(decompress(pack(transcript_of(answered(BODIES[0], "Hi")))))["tools"]
PART = compress(msgspec.msgpack.encode({"before": BEFORE, "after": AFTER, "tools": TOOLS}))
DIGEST = sha256(PART).hexdigest()


def packed_before(body):
    """A transcript as the version before packs it: the messages, and the digest of the rest."""
    parts = msgspec.msgpack.decode(decompress(pack(transcript_of(answered(body, "Hi")))))
    del parts["tools"]
    parts |= {"request": body[len(BEFORE) : len(body) - len(AFTER)], "standing": DIGEST}
    return compress(msgspec.msgpack.encode(parts))


def store(body, **fields):
    """Store a transcript as the version before does."""
    Standing.objects.get_or_create(
        digest=DIGEST, defaults={"packed": PART, "used_on": clock.now().date()}
    )
    row = exchange_row(**fields)
    return Transcript.objects.create(exchange=row, packed=packed_before(body), standing_id=DIGEST)


def lines_before():
    """Lines of a journal of the version before: the first of a segment has the shared part."""
    for number, body in enumerate(BODIES):
        row = {
            "request_id": f"req_{number}",
            "created_at": "2026-11-16T12:00:00+00:00",
            "dialect": "anthropic",
            "model": "m",
            "status": 200,
            "outcome": "ok",
            "duration_ms": 1.0,
            "gateway_ms": 1.0,
            "configuration_version": 1,
        }
        line = {
            "type": "ended",
            "exchange": row,
            "transcript": None,
            "fingerprint": None,
            "packed": packed_before(body),
            "standing": {"digest": DIGEST, "packed": PART if number % 2 == 0 else b""},
        }
        yield msgspec.json.encode(line) + b"\n"


@pytest.fixture
def dead_journal(tmp_path):
    folder = tmp_path / "dead"
    folder.mkdir()
    lines = list(lines_before())
    (folder / "00000001.jsonl").write_bytes(b"".join(lines[:2]))
    (folder / "00000002.jsonl").write_bytes(b"".join(lines[2:]))
    return folder


def test_a_transcript_is_opened_with_its_shared_part():
    for body in BODIES:
        transcript = unpack(packed_before(body), PART)
        assert transcript.request == body.decode()
        assert [tool["name"] for tool in transcript.tools] == ["get_tide"]


@pytest.mark.parametrize("wrong", [b"", PART[:-1], PART + b"\0", compress(b"{}")])
def test_a_transcript_is_not_opened_with_another_shared_part(wrong):
    with pytest.raises(Unreadable, match="the shared part of its request is missing or damaged"):
        unpack(packed_before(BODIES[1]), wrong)


@pytest.mark.django_db
def test_a_stored_transcript_of_the_version_before_is_opened():
    for number, body in enumerate(BODIES):
        store(body, request_id=f"req_{number}")
    rows = Transcript.objects.order_by("exchange_id")
    assert [row.content.request for row in rows] == [body.decode() for body in BODIES]
    with pytest.raises(IntegrityError), transaction.atomic():
        Standing.objects.get().delete()


@pytest.mark.django_db
def test_a_journal_of_the_version_before_is_stored_with_whole_requests(
    tmp_path, monkeypatch, dead_journal
):
    monkeypatch.setattr("proxy.audit.recorder.renew_connection", lambda: None)
    audit = AuditRecorder(Journal(tmp_path, max_bytes=2**24))
    audit.open_journal()
    audit._write_all()
    audit.journal.close()
    assert audit.dropped == 0
    rows = Transcript.objects.order_by("exchange__request_id")
    assert [row.content.request for row in rows] == [body.decode() for body in BODIES]
    assert {row.standing_id for row in rows} == {None}
    assert not Standing.objects.exists()


def test_if_the_line_with_the_shared_part_is_unreadable_the_row_is_kept(dead_journal):
    path = dead_journal / "00000001.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"?" * (len(first) - 1) + b"\n" + second)
    ((lost, kept),) = JournalReader(dead_journal).batches(segment_ends(dead_journal)[0])
    assert lost is None
    assert (kept.exchange["request_id"], kept.packed) == ("req_1", None)


def test_the_version_before_reads_a_line_of_this_one(tmp_path):
    class Part(msgspec.Struct):
        digest: str
        packed: bytes = b""

    class Before(msgspec.Struct, tag="ended"):
        exchange: dict
        transcript: dict | None
        fingerprint: str | None
        packed: bytes | None = None
        standing: Part | None = None

    journal = Journal(tmp_path, max_bytes=2**24)
    journal.open()
    AuditRecorder(journal).record_end(answered(BODIES[1], "Hello"), 200)
    line = (tmp_path / journal.name / "00000001.jsonl").read_bytes()
    journal.close()
    entry = msgspec.json.decode(line, type=Before)
    assert entry.standing is None
    assert unpack(entry.packed).request == BODIES[1].decode()
    assert json.loads(line)["transcript"] is None


SHARED = "shared request parts"


@pytest.mark.django_db
def test_a_shared_part_is_deleted_a_day_after_its_last_transcript():
    GatewaySettings.objects.create(pk=1, transcript_days=7, exchange_days=90)
    today = clock.now()
    store(BODIES[1], created_at=today)
    Standing.objects.update(used_on=today.date() - timedelta(days=30))
    assert prune(now=today)[SHARED] == 0, "a transcript names it"
    Standing.objects.update(used_on=today.date())
    Transcript.objects.all().delete()
    assert prune(now=today)[SHARED] == 0, "it was used today"
    assert prune(now=today + timedelta(days=2))[SHARED] == 1
    assert not Standing.objects.exists()


@pytest.mark.django_db
def test_a_shared_part_is_deleted_in_the_same_run_as_its_exchange():
    GatewaySettings.objects.create(pk=1, transcript_days=3650, exchange_days=30)
    store(BODIES[1], created_at=clock.now())
    prune(now=clock.now() + timedelta(days=40))
    assert not Exchange.objects.exists()
    assert not Standing.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("option", ["--content", None])
def test_erase_leaves_no_shared_part_of_what_it_erased(option):
    for number in (1, 2):
        store(BODIES[number], request_id=f"req_{number}")
    call_command("erase", "--request", "req_1", *filter(None, [option]))
    assert Transcript.objects.get().content.request == BODIES[2].decode()
    call_command("erase", "--request", "req_2", *filter(None, [option]))
    assert not Standing.objects.exists()


@pytest.mark.django_db
def test_erase_deletes_the_shared_parts_that_an_interrupted_erase_left():
    store(BODIES[1])
    Exchange.objects.all().delete()
    assert Standing.objects.exists()
    call_command("erase", "--request", "req_gone")
    assert not Standing.objects.exists()
