"""Which limit an answer exceeds first, on a clock that is only a number."""

from types import SimpleNamespace

import pytest

from proxy.serving.deadlines import Deadlines

UPSTREAM = SimpleNamespace(name="u", idle_timeout=10, progress_timeout=15, total_timeout=60)


def made(now=0.0, since=0.0):
    return Deadlines(UPSTREAM, ping_after=4, now=now, requested_at=since)


def code_at(deadlines, now):
    failure = deadlines.failure(now)
    return failure and failure.code


def test_silence_is_noticed_first():
    deadlines = made()
    assert code_at(deadlines, 9.9) is None
    assert code_at(deadlines, 10) == "upstream_idle"


def test_bytes_are_not_progress():
    deadlines = made()
    deadlines.received_at = 9
    assert code_at(deadlines, 14.9) is None
    assert code_at(deadlines, 15) == "upstream_no_progress"
    deadlines.advanced_at = 9
    assert code_at(deadlines, 18.9) is None
    assert code_at(deadlines, 19) == "upstream_idle"


def test_nothing_prolongs_the_total_time_which_began_with_the_request():
    deadlines = made(now=20, since=5)
    for now in range(20, 65):
        deadlines.received_at = deadlines.advanced_at = now
        assert code_at(deadlines, now) is None
    assert code_at(deadlines, 65) == "stream_too_long"


@pytest.mark.parametrize(("sent", "due"), [(0, 4), (5, 9), (7, 10)])
def test_a_read_waits_until_the_next_of_them(sent, due):
    deadlines = made()
    deadlines.sent_at = sent
    assert deadlines.due_at == due


def test_the_client_is_told_how_long_and_not_where():
    assert str(made().failure(10)) == "the upstream u sent nothing for 10 s"
