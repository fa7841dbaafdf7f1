"""The journal: every entry is read once, even if the disk or the process fails."""

import os
import random
from datetime import UTC, datetime

import pytest

from proxy.audit.journal.entries import DropEntry, EndEntry, StartEntry, decode, encode
from proxy.audit.journal.journal import Journal, lock_journal, segment_ends
from proxy.audit.journal.reader import JournalReader, Position

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def row(request_id, **fields):
    return {"request_id": request_id, "created_at": NOW, "model": "m", **fields}


def end_entry(request_id, **fields):
    return EndEntry(row(request_id, **fields), None)


@pytest.fixture(params=[True, False], ids=["cached", "from disk"])
def journal(tmp_path, monkeypatch, request):
    if not request.param:
        monkeypatch.setattr("proxy.audit.journal.reader._CACHE_BYTES", 0)
    journal = Journal(tmp_path / "journal", max_bytes=2**20)
    journal.open()
    yield journal
    journal.close()


def folder(journal):
    return journal.root / journal.name


def read(journal):
    """Read all pending entries; returns their ids."""
    ids = []
    for batch in journal.reader.batches(journal.end):
        ids += ended_ids(batch)
    return ids


def ended_ids(batch):
    return [entry.exchange["request_id"] for entry in batch if isinstance(entry, EndEntry)]


def test_decoding_a_line_is_the_inverse_of_encoding_it():
    exchange = row("a", first_byte_ms=1.5, notices=[["x", "y", 1]])
    entry = EndEntry(exchange, "mark", b"\xff\x00\n")
    assert decode(encode(entry)) == entry
    assert decode(encode(StartEntry(row("a")))) == StartEntry(row("a"))
    assert decode(encode(DropEntry("a"))) == DropEntry("a")
    for broken in (
        b"\0\0\0\n",
        b"{}\n",
        b'{"type":"begun","exchange":{}}\n',
        encode(entry)[:-9] + b"\n",
    ):
        with pytest.raises(ValueError):  # noqa: PT011  any ValueError
            decode(broken)


def test_entries_are_read_in_order_and_only_once(journal):
    journal.add_start(StartEntry(row("a")))
    for name in "abc":
        assert journal.add_end(end_entry(name))
    assert read(journal) == ["a", "b", "c"]
    journal.add_end(end_entry("d"))
    assert read(journal) == ["d"]
    assert read(journal) == []


@pytest.mark.parametrize("room", [0, 5000, 20_000, 2**20])
@pytest.mark.parametrize("seed", range(8))
def test_every_entry_is_read_once_with_any_cache_size(tmp_path, monkeypatch, room, seed):
    monkeypatch.setattr("proxy.audit.journal.reader._CACHE_BYTES", room)
    monkeypatch.setattr("proxy.audit.journal.reader._BATCH_ENTRIES", 7)
    monkeypatch.setattr("proxy.audit.journal.journal._SEGMENT_BYTES", 3000)
    chance, ids = random.Random(seed), []
    journal = Journal(tmp_path, max_bytes=2**20)
    journal.open()
    for number in range(400):
        name = f"{number:03}"
        if chance.random() < 0.8:
            journal.add_start(StartEntry(row(name)))
        journal.add_end(end_entry(name, model="m" * chance.randrange(300)))
        if chance.random() < 0.03:
            batches_until_outage = chance.randrange(4)
            for batch in journal.reader.batches(journal.end):
                if batches_until_outage == 0:
                    break
                batches_until_outage -= 1
                ids += ended_ids(batch)
            journal.rotate_if_drained()
    ids += read(journal)
    assert ids == [f"{number:03}" for number in range(400)]
    assert journal.reader.at == journal.end
    journal.rotate_if_drained()
    assert read(journal) == []
    assert journal.size == 0
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_recent_entries_are_not_read_from_disk(journal, monkeypatch, request):
    def refuse(*_):
        raise AssertionError("an entry was read from disk")

    journal.add_start(StartEntry(row("a")))
    journal.add_end(end_entry("a"))
    journal.add_start(StartEntry(row("b")))
    monkeypatch.setattr(JournalReader, "_read", refuse)
    if "from disk" in request.node.name:
        with pytest.raises(AssertionError):
            read(journal)
        return
    assert read(journal) == ["a"]
    assert journal.reader.at == journal.end


def test_the_cache_is_bounded_and_has_at_most_one_gap(tmp_path, monkeypatch):
    monkeypatch.setattr("proxy.audit.journal.reader._CACHE_BYTES", 40_000)
    journal = Journal(tmp_path, max_bytes=2**20)
    journal.open()
    for number in range(100):
        journal.add_start(StartEntry(row(str(number))))
        journal.add_end(end_entry(str(number)))
    assert 10 <= len(journal._cache._entries) < 40
    sizes = [len(batch) for batch in journal.reader.batches(journal.end)]
    assert len(sizes) == 2
    assert not journal._cache._entries
    journal.add_end(end_entry("later"))
    assert len(journal._cache._entries) == 1, "there is room again"
    journal.close()


def test_a_deleted_journal_is_noticed_even_if_its_entries_are_cached(journal):
    journal.add_end(end_entry("a"))
    (folder(journal) / "00000001.jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        read(journal)


def test_an_unfinished_batch_is_read_again(journal):
    journal.add_end(end_entry("a"))
    for batch in journal.reader.batches(journal.end):
        assert len(batch) == 1
        break  # the database is down
    assert read(journal) == ["a"]


def test_batches_are_bounded_by_entries_and_bytes(journal, monkeypatch):
    monkeypatch.setattr("proxy.audit.journal.reader._BATCH_ENTRIES", 4)
    monkeypatch.setattr("proxy.audit.journal.reader._BATCH_BYTES", 1000)
    for number in range(6):
        journal.add_end(end_entry(str(number)))
    for number in range(6, 9):
        journal.add_end(end_entry(str(number), model="m" * 900))
    sizes = [len(batch) for batch in journal.reader.batches(journal.end)]
    assert sizes == [4, 2, 1, 1, 1]


def test_segments_are_deleted_after_they_have_been_read(journal, monkeypatch):
    monkeypatch.setattr("proxy.audit.journal.journal._SEGMENT_BYTES", 500)
    for number in range(20):
        journal.add_end(end_entry(str(number)))
    assert len(segment_ends(folder(journal))) > 3
    assert journal.size == sum(path.stat().st_size for path in folder(journal).iterdir())
    assert read(journal) == [str(number) for number in range(20)]
    assert segment_ends(folder(journal)) == [journal.end]
    assert journal.size == journal.end.offset


def test_a_new_segment_repeats_the_open_exchanges(journal):
    for name in "abc":
        journal.add_start(StartEntry(row(name)))
    journal.add_end(end_entry("b"))
    journal.rotate()
    read(journal)
    lines = (folder(journal) / "00000002.jsonl").read_bytes().splitlines()
    assert [decode(line).exchange["request_id"] for line in lines] == ["a", "c"]


def test_stored_entries_do_not_stay_on_disk(journal):
    journal.add_start(StartEntry(row("a")))
    journal.add_end(end_entry("a", model="canary"))
    read(journal)
    journal.rotate_if_drained()
    read(journal)
    assert journal.size == 0
    assert [path.read_bytes() for path in folder(journal).iterdir()] == [b""]


def test_a_full_journal_writes_only_drop_entries(tmp_path):
    journal = Journal(tmp_path, max_bytes=1000)
    journal.open()
    journal.add_start(StartEntry(row("open")))
    names = [str(number) for number in range(20)]
    kept = [name for name in names if journal.add_end(end_entry(name))]
    assert 0 < len(kept) < 20
    assert not journal.add_end(end_entry("open"))
    assert journal.size < 1300
    lines = (folder(journal) / "00000001.jsonl").read_bytes().splitlines()
    assert decode(lines[-1]) == DropEntry("open")
    assert read(journal) == kept
    journal.rotate_if_drained()
    assert read(journal) == []
    assert journal.add_end(end_entry("later")), "there is room again"
    journal.close()


def test_other_journals_count_towards_the_limit(journal):
    journal.other_journals_bytes = 2**20
    assert journal.is_full


def test_a_full_disk_costs_only_one_line(journal):
    journal.add_end(end_entry("a"))
    (folder(journal) / "00000002.jsonl").symlink_to("/dev/full")
    journal._open_exchanges["open"] = encode(StartEntry(row("open")))
    with pytest.raises(OSError, match="No space"):
        journal.rotate()
    journal.add_end(end_entry("b"))
    assert read(journal) == ["a", "b"]


def test_half_a_line_on_a_full_disk_does_not_damage_the_next_line(journal, monkeypatch):
    journal.add_end(end_entry("a"))
    real = os.write

    def half(file, data):
        return real(file, data[: len(data) // 2])

    for can_truncate in (True, False):
        with monkeypatch.context() as broken:
            broken.setattr("proxy.audit.journal.journal.os.write", half)
            if not can_truncate:
                broken.setattr("proxy.audit.journal.journal.os.ftruncate", lambda *_: refuse())
            with pytest.raises(OSError, match="No space"):
                journal.add_end(end_entry("lost"))
        journal.add_end(end_entry("b"))
    assert read(journal) == ["a", "b", "b"]


def refuse():
    raise OSError("no")


def test_a_journal_is_locked_while_its_process_lives(journal):
    with pytest.raises(BlockingIOError):
        lock_journal(folder(journal))
    journal.add_start(StartEntry(row("open")))
    journal.close()
    os.close(lock_journal(folder(journal)))


def test_closing_a_fully_read_journal_deletes_it(journal):
    journal.add_start(StartEntry(row("a")))
    journal.add_end(end_entry("a"))
    read(journal)
    journal.close()
    assert list(journal.root.iterdir()) == []


def test_half_a_line_at_the_end_is_not_read(tmp_path):
    (tmp_path / "00000001.jsonl").write_bytes(encode(end_entry("a")) + encode(end_entry("b"))[:30])
    reader = JournalReader(tmp_path)
    batches = list(reader.batches(Position(1, 10**6)))
    assert [len(batch) for batch in batches] == [1]


def test_only_the_owner_may_read_a_journal(journal):
    for path in (journal.root, folder(journal), folder(journal) / "00000001.jsonl"):
        assert path.stat().st_mode & 0o077 == 0


def test_an_entry_is_one_line_with_any_content():
    line = encode(EndEntry(row("req_1", model="a\nb"), "c\nd", b"\n"))
    assert line.count(b"\n") == 1
    assert isinstance(decode(line), EndEntry)


@pytest.mark.parametrize("name", ["request_id", "created_at"])
def test_a_line_without_a_required_column_is_rejected(name):
    lacking = {key: value for key, value in row("req_1").items() if key != name}
    with pytest.raises(ValueError, match="lacks"):
        decode(encode(EndEntry(lacking, None)))
