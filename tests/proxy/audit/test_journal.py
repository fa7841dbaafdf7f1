"""Exchanges on disk: every line is read once, whatever happens to the disk or the process."""

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


def ended(request_id, **fields):
    return EndEntry(row(request_id, **fields), None)


@pytest.fixture(params=[True, False], ids=["remembered", "from disk"])
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
    """The ids of the entries that wait; then they are done with."""
    found = []
    for lines in journal.reader.batches(journal.end):
        found += [line.exchange["request_id"] for line in lines if is_entry(line)]
    return found


def is_entry(line):
    return isinstance(line, EndEntry)


def test_a_line_is_read_as_it_was_written():
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
        with pytest.raises(ValueError):  # noqa: PT011  any of its kinds
            decode(broken)


def test_entries_are_read_in_order_and_once(journal):
    journal.add_start(StartEntry(row("a")))
    for name in "abc":
        assert journal.add_end(ended(name))
    assert read(journal) == ["a", "b", "c"]
    journal.add_end(ended("d"))
    assert read(journal) == ["d"]
    assert read(journal) == []


@pytest.mark.parametrize("room", [0, 5000, 20_000, 2**20])
@pytest.mark.parametrize("seed", range(8))
def test_however_much_is_remembered_every_entry_is_read_once(tmp_path, monkeypatch, room, seed):
    monkeypatch.setattr("proxy.audit.journal.reader._CACHE_BYTES", room)
    monkeypatch.setattr("proxy.audit.journal.reader._BATCH_ENTRIES", 7)
    monkeypatch.setattr("proxy.audit.journal.journal._SEGMENT_BYTES", 3000)
    chance, found, unread = random.Random(seed), [], 0
    journal = Journal(tmp_path, max_bytes=2**20)
    journal.open()
    for number in range(400):
        name = f"{number:03}"
        if chance.random() < 0.8:
            journal.add_start(StartEntry(row(name)))
        journal.add_end(ended(name, model="m" * chance.randrange(300)))
        if chance.random() < 0.03:
            unread = chance.randrange(4)  # so many batches are read until the database goes away
            for lines in journal.reader.batches(journal.end):
                if unread == 0:
                    break
                unread -= 1
                found += [line.exchange["request_id"] for line in lines if is_entry(line)]
            journal.rotate_if_drained()
    found += read(journal)
    assert found == [f"{number:03}" for number in range(400)]
    assert journal.reader.at == journal.end
    journal.rotate_if_drained()
    assert read(journal) == []
    assert journal.size == 0
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_a_moment_ago_is_not_read_from_disk(journal, monkeypatch, request):
    def refuse(*_):
        raise AssertionError("it was read from disk")

    journal.add_start(StartEntry(row("a")))
    journal.add_end(ended("a"))
    journal.add_start(StartEntry(row("b")))
    monkeypatch.setattr(JournalReader, "_read", refuse)
    if "from disk" in request.node.name:
        with pytest.raises(AssertionError):
            read(journal)
        return
    assert read(journal) == ["a"]
    assert journal.reader.at == journal.end


def test_what_is_remembered_is_bounded_and_what_is_not_is_one_gap(tmp_path, monkeypatch):
    monkeypatch.setattr("proxy.audit.journal.reader._CACHE_BYTES", 40_000)
    journal = Journal(tmp_path, max_bytes=2**20)
    journal.open()
    for number in range(100):
        journal.add_start(StartEntry(row(str(number))))
        journal.add_end(ended(str(number)))
    assert 10 <= len(journal._cache._entries) < 40
    sizes = [len(lines) for lines in journal.reader.batches(journal.end)]
    assert len(sizes) == 2
    assert not journal._cache._entries
    journal.add_end(ended("later"))
    assert len(journal._cache._entries) == 1, "there is room again"
    journal.close()


def test_a_journal_that_somebody_deleted_is_gone_though_it_is_remembered(journal):
    journal.add_end(ended("a"))
    (folder(journal) / "00000001.jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        read(journal)


def test_a_batch_that_was_not_done_with_is_read_again(journal):
    journal.add_end(ended("a"))
    for lines in journal.reader.batches(journal.end):
        assert len(lines) == 1
        break  # the database was away
    assert read(journal) == ["a"]


def test_batches_are_bounded_by_lines_and_by_bytes(journal, monkeypatch):
    monkeypatch.setattr("proxy.audit.journal.reader._BATCH_ENTRIES", 4)
    monkeypatch.setattr("proxy.audit.journal.reader._BATCH_BYTES", 1000)
    for number in range(6):
        journal.add_end(ended(str(number)))
    for number in range(6, 9):
        journal.add_end(ended(str(number), model="m" * 900))
    sizes = [len(lines) for lines in journal.reader.batches(journal.end)]
    assert sizes == [4, 2, 1, 1, 1]


def test_segments_that_are_done_with_go_and_those_that_are_not_stay(journal, monkeypatch):
    monkeypatch.setattr("proxy.audit.journal.journal._SEGMENT_BYTES", 500)
    for number in range(20):
        journal.add_end(ended(str(number)))
    assert len(segment_ends(folder(journal))) > 3
    assert journal.size == sum(path.stat().st_size for path in folder(journal).iterdir())
    assert read(journal) == [str(number) for number in range(20)]
    assert segment_ends(folder(journal)) == [journal.end]
    assert journal.size == journal.end.offset


def test_a_new_segment_repeats_what_is_open(journal):
    for name in "abc":
        journal.add_start(StartEntry(row(name)))
    journal.add_end(ended("b"))
    journal.rotate()
    read(journal)
    lines = (folder(journal) / "00000002.jsonl").read_bytes().splitlines()
    assert [decode(line).exchange["request_id"] for line in lines] == ["a", "c"]


def test_what_is_done_with_does_not_lie_about(journal):
    journal.add_start(StartEntry(row("a")))
    journal.add_end(ended("a", model="canary"))
    read(journal)
    journal.rotate_if_drained()
    read(journal)
    assert journal.size == 0
    assert [path.read_bytes() for path in folder(journal).iterdir()] == [b""]


def test_beyond_its_limit_nothing_is_kept_but_that_something_was_dropped(tmp_path):
    journal = Journal(tmp_path, max_bytes=1000)
    journal.open()
    journal.add_start(StartEntry(row("open")))
    names = [str(number) for number in range(20)]
    kept = [name for name in names if journal.add_end(ended(name))]
    assert 0 < len(kept) < 20
    assert not journal.add_end(ended("open"))
    assert journal.size < 1300
    lines = (folder(journal) / "00000001.jsonl").read_bytes().splitlines()
    assert decode(lines[-1]) == DropEntry("open")
    assert read(journal) == kept
    journal.rotate_if_drained()
    assert read(journal) == []
    assert journal.add_end(ended("later")), "there is room again"
    journal.close()


def test_the_journals_beside_it_count_for_the_limit(journal):
    journal.other_journals_bytes = 2**20
    assert journal.is_full


def test_a_disk_that_is_full_costs_the_one_line(journal):
    journal.add_end(ended("a"))
    (folder(journal) / "00000002.jsonl").symlink_to("/dev/full")
    journal._open_exchanges["open"] = encode(StartEntry(row("open")))
    with pytest.raises(OSError, match="No space"):
        journal.rotate()
    journal.add_end(ended("b"))
    assert read(journal) == ["a", "b"]


def test_half_a_line_on_a_full_disk_does_not_spoil_the_next(journal, monkeypatch):
    journal.add_end(ended("a"))
    real = os.write

    def half(file, data):
        return real(file, data[: len(data) // 2])

    for can_truncate in (True, False):
        with monkeypatch.context() as broken:
            broken.setattr("proxy.audit.journal.journal.os.write", half)
            if not can_truncate:
                broken.setattr("proxy.audit.journal.journal.os.ftruncate", lambda *_: refuse())
            with pytest.raises(OSError, match="No space"):
                journal.add_end(ended("lost"))
        journal.add_end(ended("b"))
    assert read(journal) == ["a", "b", "b"]


def refuse():
    raise OSError("no")


def test_a_journal_is_held_while_its_process_lives(journal):
    with pytest.raises(BlockingIOError):
        lock_journal(folder(journal))
    journal.add_start(StartEntry(row("open")))
    journal.close()
    os.close(lock_journal(folder(journal)))


def test_an_end_with_nothing_left_leaves_nothing(journal):
    journal.add_start(StartEntry(row("a")))
    journal.add_end(ended("a"))
    read(journal)
    journal.close()
    assert list(journal.root.iterdir()) == []


def test_a_torn_end_is_not_read(tmp_path):
    (tmp_path / "00000001.jsonl").write_bytes(encode(ended("a")) + encode(ended("b"))[:30])
    reader = JournalReader(tmp_path)
    batches = list(reader.batches(Position(1, 10**6)))
    assert [len(lines) for lines in batches] == [1]


def test_only_its_owner_may_read_it(journal):
    for path in (journal.root, folder(journal), folder(journal) / "00000001.jsonl"):
        assert path.stat().st_mode & 0o077 == 0


def test_an_entry_is_one_line_whatever_others_wrote_into_it():
    line = encode(EndEntry(row("req_1", model="a\nb"), "c\nd", b"\n"))
    assert line.count(b"\n") == 1
    assert isinstance(decode(line), EndEntry)


@pytest.mark.parametrize("name", ["request_id", "created_at"])
def test_a_line_without_what_every_row_has_is_none(name):
    lacking = {key: value for key, value in row("req_1").items() if key != name}
    with pytest.raises(ValueError, match="lacks"):
        decode(encode(EndEntry(lacking, None)))
