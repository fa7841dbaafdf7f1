"""Captured content is cut to its head and its tail."""

import random

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
