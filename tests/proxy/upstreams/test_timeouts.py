"""Upstreams that take too long: to begin, between bytes, between events, and in all."""

import time

import pytest

from tests.support.chat import chunk, error_of, reply
from tests.support.faulty_upstreams import PATHS, failed_in_the_middle
from tests.support.scripted_upstream import Drip, Pause
from tests.support.upstream_answers import event, stream
from tests.support.waiting import wait_for

BEGUN = chunk({"content": "one"})


def begun_by_anthropic():
    """The first events of an answer: its start, a ping, and text."""
    return b"".join(list(stream("anthropic", "one"))[:4])


@pytest.mark.parametrize("start", [[], [*reply(ends=False)], [*reply(b": soon\n\n", ends=False)]])
def test_an_answer_that_does_not_begin_is_504(either, start):
    model, script = either.script("first", [*start, Pause(20)])
    response = either.post(model, stream=True)
    assert error_of(response)[:2] == (504, "timeout_error")
    assert either.row(response) == ("timeout", "answer", "first_byte_timeout", 504)
    wait_for(lambda: script.last.closed_at)
    assert len(script.requests) == 1


def test_an_answer_that_does_not_begin_ends_a_stream_that_was_opened_in_an_event(athena_faulty):
    """The session's gateway opens streams after 1.5 s, and this upstream has 2.5."""
    model, script = athena_faulty.script("later", [Pause(20)])
    response = athena_faulty.post(model, stream=True)
    seen = failed_in_the_middle(response, "anthropic")
    assert (seen.error, seen.names[0]) == ("timeout_error", "ping")
    assert athena_faulty.row(response) == ("timeout", "answer", "first_byte_timeout", 200)
    wait_for(lambda: script.last.closed_at)


@pytest.mark.parametrize("dialect", PATHS)
def test_an_answer_that_falls_silent_ends_in_an_error(either, dialect):
    model, script = either.script("idle", reply(BEGUN, Pause(20)))
    response = either.post(model, dialect, stream=True)
    seen = failed_in_the_middle(response, dialect)
    assert (seen.text, seen.error) == ("one", "timeout_error")
    assert either.row(response) == ("timeout", "body", "upstream_idle", 200)
    wait_for(lambda: script.last.closed_at)
    assert error_of(either.post(model))[0] == 504  # collected for a client that does not stream


@pytest.mark.parametrize("comment", [b": ping\n\n", b": data: none of it\n\n", b"\n\n"])
def test_comments_alone_are_no_progress(either, comment):
    model, script = either.script(
        "progress", reply(BEGUN, Drip(b"%x\r\n%b\r\n" % (len(comment), comment)))
    )
    response = either.post(model, stream=True)
    seen = failed_in_the_middle(response, "anthropic")
    assert (seen.text, seen.error) == ("one", "timeout_error")
    assert either.row(response) == ("timeout", "body", "upstream_no_progress", 200)
    wait_for(lambda: script.last.closed_at)


def test_pings_of_anthropics_are_no_progress_either(athena_faulty):
    ping = event({"type": "ping"})
    drip = Drip(b"%x\r\n%b\r\n" % (len(ping), ping))
    model, script = athena_faulty.script("pings", reply(begun_by_anthropic(), drip))
    response = athena_faulty.post(model, stream=True)
    seen = failed_in_the_middle(response, "anthropic")
    assert (seen.text, seen.error) == ("one", "timeout_error")
    assert seen.names.count("ping") >= 2  # the client is kept waiting meanwhile
    assert athena_faulty.row(response) == ("timeout", "body", "upstream_no_progress", 200)
    wait_for(lambda: script.last.closed_at)


def test_events_that_say_nothing_yet_are_progress(either):
    parts = [chunk({"content": ""}), Pause(0.25)] * 10
    model, _ = either.script("progress", reply(BEGUN, *parts, chunk({}, "stop")))
    response = either.post(model, stream=True)
    assert either.gateway.exchange(response)["outcome"] == "ok"


@pytest.mark.parametrize("dialect", PATHS)
def test_an_answer_without_end_is_cut_at_the_total_time(either, dialect):
    drip = Drip(b"%x\r\n%b\r\n" % (len(BEGUN), BEGUN))
    model, script = either.script("total", reply(drip))
    start = time.monotonic()
    response = either.post(model, dialect, stream=True)
    assert time.monotonic() - start >= 1.9
    seen = failed_in_the_middle(response, dialect)
    assert (seen.text[:6], seen.error) == ("oneone", "timeout_error")
    assert either.row(response) == ("timeout", "body", "stream_too_long", 200)
    wait_for(lambda: script.last.closed_at)
