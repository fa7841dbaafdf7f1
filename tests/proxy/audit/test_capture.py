"""Captured content is cut to its head and its tail."""

import random
import tracemalloc

import pytest

from formats import TextDelta
from proxy.audit.capture import Capture, ClippedBytes, clip


@pytest.mark.parametrize("limit", [2, 10, 100])
def test_clipped_bytes_have_head_and_tail_for_any_chunks(limit):
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


def test_events_are_clipped_together_with_their_bytes():
    kept = Capture(b"", 4096)
    for number in range(10_000):
        kept.add_read(b"x" * 10, [TextDelta(str(number))], at=0.0)
    head, tail = kept.events.get()
    assert [head[0].text, tail[-1].text] == ["0", "9999"]
    assert len(head) + len(tail) + kept.events.left_out == 10_000
    assert (len(head), len(tail)) == (205, 205)


def test_reads_are_clipped_alike_whenever_they_are_looked_at():
    unseen, seen = Capture(b"", 4096), Capture(b"", 4096)
    for number in range(1500):
        for kept in (unseen, seen):
            kept.add_read(b"x" * (number % 7), [TextDelta(str(number))], at=float(number))
        assert seen.raw.size == sum([index % 7 for index in range(number + 1)])
    assert unseen.raw.get() == seen.raw.get()
    assert unseen.events.get() == seen.events.get()
    assert len(unseen.arrivals) == len(seen.arrivals) > 1000
    assert [offset for offset, _ in unseen.arrivals] == [offset for offset, _ in seen.arrivals]


@pytest.mark.parametrize(("limit", "reads", "size"), [(4096, 400, 20_000), (100_000, 50_000, 1)])
def test_a_capture_that_is_never_looked_at_is_bounded(limit, reads, size):
    tracemalloc.start()
    try:
        kept = Capture(b"", limit)
        for number in range(reads):
            kept.add_read(bytes(size), [TextDelta(str(number))], at=0.0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4_000_000


def test_reads_of_a_discarded_answer_are_gone():
    kept = Capture(b"", 4096)
    kept.add_read(b"failed", [TextDelta("failed")], at=0.0)
    kept.discard_answer()
    kept.add_read(b"answer", [TextDelta("answer")], at=0.0)
    assert kept.raw.get().data == b"answer"
    assert kept.arrivals[0][0] == 0
    assert kept.events.get() == ([TextDelta("answer")], [])
