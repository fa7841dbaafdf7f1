"""Server-sent events, split anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import LimitExceeded, Limits, UpstreamError
from formats.sse import EventDecoder, EventSplitter, encode_event
from tests.support.wire import byte_cuts

CASES = {
    "one event": (b"data: a\n\n", [(b"", b"a")]),
    "a name": (b"event: x\ndata: a\n\n", [(b"x", b"a")]),
    "a name is for one event": (b"event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
    "no space after the colon": (b"event:x\ndata:a\n\n", [(b"x", b"a")]),
    "only one space is taken": (b"data:  a\n\n", [(b"", b" a")]),
    "several data lines": (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
    "an empty data line": (b"data\ndata: b\n\n", [(b"", b"\nb")]),
    "CRLF": (b"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [(b"x", b"a"), (b"", b"b")]),
    "CR": (b"data: a\r\rdata: b\r\r", [(b"", b"a"), (b"", b"b")]),
    "comments": (b": OPENROUTER PROCESSING\n\ndata: a\n: x\n\n", [(b"", b"a")]),
    "id and retry": (b"id: 1\nretry: 5\ndata: a\n\n", [(b"", b"a")]),
    "an event without data": (b"event: x\n\ndata: a\n\n", [(b"", b"a")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
    "no last blank line": (b"data: a\n\ndata: [DONE]", [(b"", b"a"), (b"", b"[DONE]")]),
    "no last line feed of CRLF": (b"data: a\r\n\r", [(b"", b"a")]),
    "line separators of Unicode": (
        "data: a\u2028b\x85\n\n".encode(),
        [(b"", "a\u2028b\x85".encode())],
    ),
    "nothing": (b"", []),
}


@pytest.mark.parametrize(("body", "events"), CASES.values(), ids=CASES)
def test_events_are_read_at_any_split(body, events):
    for parts in byte_cuts(body):
        decoder = EventDecoder()
        got = [event for part in parts for event in decoder.feed(part)] + decoder.close()
        assert got == events


@pytest.mark.parametrize(
    "body", [b"data: " + b"x" * 200, b"data: xxxx\n" * 30, b"x" * 200 + b"\n\n"]
)
def test_an_event_over_the_limit_is_refused_at_any_split(body):
    for parts in byte_cuts(body):
        assert limit_of(parts, event_bytes=100) == "event_bytes"


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        (b"data: " + b"x" * 30, "line_bytes"),
        (b"data: a\n" * 8, "event_bytes"),
        (b"data: a\n" * 3 + b"data: " + b"x" * 30, "line_bytes"),
        (b"data: a\n" * 4 + b"data: " + b"x" * 30, "event_bytes"),
        (b"data: a\n\n" * 9 + b"data: " + b"x" * 30, "line_bytes"),
        (b"data: a\r\n\r\n" * 9 + b"data: " + b"x" * 30, "line_bytes"),
        (b"data: a\r\r" * 9 + b": comment " + b"x" * 30 + b"\r\r", "line_bytes"),
        (b"data: a\n\n" * 9 + b"data: a\n" * 6, None),
        (b"data: " + b"x" * 14 + b"\n\n" + b"data: " + b"x" * 14, None),
    ],
)
def test_the_first_exceeded_limit_is_reported_at_any_split(body, limit):
    for parts in byte_cuts(body, 20):
        assert limit_of(parts, line_bytes=20, event_bytes=50) == limit


def limit_of(parts, **limits):
    decoder = EventDecoder(Limits(**limits))
    try:
        for part in parts:
            decoder.feed(part)
            if decoder.error is not None:
                raise decoder.error
    except LimitExceeded as error:
        return error.limit
    return None


def test_events_before_an_error_are_read_at_any_split():
    for bad in (b"data: " + b"x" * 99, b"data: \xff\n\n", b'data: {"a":"\xf0\x9f\x8c"}\n\n'):
        for parts in byte_cuts(b"data: one\n\ndata: two\n\n" + bad + b"\n\ndata: three\n\n"):
            decoder, seen = EventDecoder(Limits(line_bytes=50)), []
            try:
                for part in parts:
                    seen += [data for _, data in decoder.feed(part)]
                    if decoder.error is not None:
                        raise decoder.error
            except UpstreamError:
                assert seen == [b"one", b"two"]
            else:
                raise AssertionError("it passed")


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_the_splitter_splits_only_between_events_and_loses_nothing(body, places):
    places = sorted({0, len(body), *(place for place in places if place < len(body))})
    cutter, seen = EventSplitter(Limits(line_bytes=20, event_bytes=40)), b""
    for start, end in pairwise(places):
        seen += cutter.feed(body[start:end])
    assert seen + cutter.close() == body
    assert cutter.held == 0


def test_many_events_in_one_read_do_not_exceed_the_event_limit():
    assert len(EventDecoder(Limits(event_bytes=100)).feed(b"data: x\n\n" * 100)) == 100


def test_a_line_of_several_hundred_kilobytes_passes():
    assert EventDecoder().feed(b"data: " + b"x" * 500_000 + b"\n\n") == [(b"", b"x" * 500_000)]


def test_an_encoded_event_is_decoded():
    assert EventDecoder().feed(encode_event("x", b'{"a":1}')) == [(b"x", b'{"a":1}')]
