"""Deadlines of an answer, on a simulated clock."""

from types import SimpleNamespace

import pytest

from proxy.serving.deadlines import Deadlines

UPSTREAM = SimpleNamespace(name="u", idle_timeout=10, progress_timeout=15, total_timeout=60)


def make_deadlines(now=0.0, since=0.0):
    return Deadlines(UPSTREAM, ping_after=4, now=now, requested_at=since)


def code_at(deadlines, now):
    failure = deadlines.failure(now)
    return failure and failure.code


def test_the_idle_deadline_passes_first():
    deadlines = make_deadlines()
    assert code_at(deadlines, 9.9) is None
    assert code_at(deadlines, 10) == "upstream_idle"


def test_bytes_are_not_progress():
    deadlines = make_deadlines()
    deadlines.received_at = 9
    assert code_at(deadlines, 14.9) is None
    assert code_at(deadlines, 15) == "upstream_no_progress"
    deadlines.advanced_at = 9
    assert code_at(deadlines, 18.9) is None
    assert code_at(deadlines, 19) == "upstream_idle"


def test_the_total_deadline_counts_from_the_request_and_is_never_extended():
    deadlines = make_deadlines(now=20, since=5)
    for now in range(20, 65):
        deadlines.received_at = deadlines.advanced_at = now
        assert code_at(deadlines, now) is None
    assert code_at(deadlines, 65) == "stream_too_long"


@pytest.mark.parametrize(("sent", "due"), [(0, 4), (5, 9), (7, 10)])
def test_a_read_waits_until_the_next_deadline(sent, due):
    deadlines = make_deadlines()
    deadlines.sent_at = sent
    assert deadlines.due_at == due


def test_the_message_names_the_timeout_but_not_the_address():
    assert str(make_deadlines().failure(10)) == "the upstream u sent nothing for 10 s"
