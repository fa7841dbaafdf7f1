"""Timeouts of upstreams: first byte, idle, progress and total."""

import time

import pytest

from tests.support.chat import chunk, error_of, reply
from tests.support.client_views import error_type
from tests.support.faulty_upstreams import PATHS, failed_in_the_middle
from tests.support.scripted_upstream import Drip, Pause
from tests.support.upstream_answers import event, stream
from tests.support.waiting import wait_for

TEXT_CHUNK = chunk({"content": "one"})


def anthropic_start():
    """First events of an answer: start, ping and text."""
    return b"".join(list(stream("anthropic", "one"))[:4])


@pytest.mark.parametrize("start", [[], [*reply(ends=False)], [*reply(b": soon\n\n", ends=False)]])
def test_an_answer_that_does_not_start_is_504(either, start):
    model, script = either.script("first", [*start, Pause(20)])
    response = either.post(model, stream=True)
    assert error_of(response)[:2] == (504, "timeout_error")
    assert either.row(response) == ("timeout", "answer", "first_byte_timeout", 504)
    wait_for(lambda: script.last.closed_at)
    assert len(script.requests) == 1


SLOW_HEADS = {
    "interim answers": [Drip(b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.3)],
    "headers": [b"HTTP/1.1 200 OK\r\n", Drip(b"x: y\r\n", 0.3)],
    "bytes of a header": [b"HTTP/1.1 200 OK\r\nx: ", Drip(b"y", 0.3)],
}


@pytest.mark.parametrize("case", SLOW_HEADS)
def test_headers_that_never_end_are_504(either, case):
    """W17: httpx's timeout starts again with every byte, so this held a slot forever."""
    model, script = either.script("first", SLOW_HEADS[case])
    response = either.post(model)
    assert error_of(response)[:2] == (504, "timeout_error")
    assert either.row(response) == ("timeout", "answer", "first_byte_timeout", 504)
    wait_for(lambda: script.last.closed_at)
    assert len(script.requests) == 1


def test_a_first_byte_timeout_in_an_opened_stream_is_an_error_event(athena_faulty):
    """The gateway opens streams after 1.5 s; the first-byte timeout of this upstream is 2.5 s."""
    model, script = athena_faulty.script("later", [Pause(20)])
    response = athena_faulty.post(model, stream=True)
    seen = failed_in_the_middle(response, "anthropic")
    assert (seen.error, seen.names[0]) == ("overloaded_error", "ping")
    assert athena_faulty.row(response) == ("timeout", "answer", "first_byte_timeout", 200)
    wait_for(lambda: script.last.closed_at)


@pytest.mark.parametrize("dialect", PATHS)
def test_an_idle_answer_ends_in_an_error(either, dialect):
    model, script = either.script("idle", reply(TEXT_CHUNK, Pause(20)))
    response = either.post(model, dialect, stream=True)
    seen = failed_in_the_middle(response, dialect)
    assert (seen.text, seen.error) == ("one", error_type("timeout_error", dialect))
    assert either.row(response) == ("timeout", "body", "upstream_idle", 200)
    wait_for(lambda: script.last.closed_at)
    assert error_of(either.post(model))[0] == 504  # without streaming


@pytest.mark.parametrize("comment", [b": ping\n\n", b": data: none of it\n\n", b"\n\n"])
def test_comments_do_not_count_as_progress(either, comment):
    model, script = either.script(
        "progress", reply(TEXT_CHUNK, Drip(b"%x\r\n%b\r\n" % (len(comment), comment)))
    )
    response = either.post(model, stream=True)
    seen = failed_in_the_middle(response, "anthropic")
    assert (seen.text, seen.error) == ("one", "overloaded_error")
    assert either.row(response) == ("timeout", "body", "upstream_no_progress", 200)
    wait_for(lambda: script.last.closed_at)


def test_anthropic_pings_do_not_count_as_progress(athena_faulty):
    ping = event({"type": "ping"})
    drip = Drip(b"%x\r\n%b\r\n" % (len(ping), ping))
    model, script = athena_faulty.script("pings", reply(anthropic_start(), drip))
    response = athena_faulty.post(model, stream=True)
    seen = failed_in_the_middle(response, "anthropic")
    assert (seen.text, seen.error) == ("one", "overloaded_error")
    assert seen.names.count("ping") >= 2  # the gateway keeps the client waiting
    assert athena_faulty.row(response) == ("timeout", "body", "upstream_no_progress", 200)
    wait_for(lambda: script.last.closed_at)


def test_events_without_content_count_as_progress(either):
    parts = [chunk({"content": ""}), Pause(0.25)] * 10
    model, _ = either.script("progress", reply(TEXT_CHUNK, *parts, chunk({}, "stop")))
    response = either.post(model, stream=True)
    assert either.gateway.exchange(response)["outcome"] == "ok"


@pytest.mark.parametrize("dialect", PATHS)
def test_an_endless_answer_is_aborted_at_the_total_timeout(either, dialect):
    drip = Drip(b"%x\r\n%b\r\n" % (len(TEXT_CHUNK), TEXT_CHUNK))
    model, script = either.script("total", reply(drip))
    start = time.monotonic()
    response = either.post(model, dialect, stream=True)
    assert time.monotonic() - start >= 1.9
    seen = failed_in_the_middle(response, dialect)
    assert (seen.text[:6], seen.error) == ("oneone", error_type("timeout_error", dialect))
    assert either.row(response) == ("timeout", "body", "stream_too_long", 200)
    wait_for(lambda: script.last.closed_at)
