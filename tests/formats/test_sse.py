"""Server-sent events, cut anywhere."""

import pytest

from formats import LimitExceeded, Limits
from formats.sse import EventDecoder, encode_event
from tests.formats.wire import byte_cuts

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
def test_events_are_read_at_any_cut(body, events):
    for parts in byte_cuts(body):
        decoder = EventDecoder()
        got = [event for part in parts for event in decoder.feed(part)] + decoder.close()
        assert got == events


@pytest.mark.parametrize(
    "body", [b"data: " + b"x" * 200, b"data: xxxx\n" * 30, b"x" * 200 + b"\n\n"]
)
def test_an_event_over_the_limit_is_refused_at_any_cut(body):
    for parts in byte_cuts(body):
        decoder = EventDecoder(Limits(event_bytes=100))
        with pytest.raises(LimitExceeded, match="event_bytes"):
            [decoder.feed(part) for part in parts]


def test_many_events_in_one_read_are_no_event_over_the_limit():
    assert len(EventDecoder(Limits(event_bytes=100)).feed(b"data: x\n\n" * 100)) == 100


def test_a_line_of_several_hundred_kilobytes_passes():
    assert EventDecoder().feed(b"data: " + b"x" * 500_000 + b"\n\n") == [(b"", b"x" * 500_000)]


def test_what_is_encoded_is_decoded():
    assert EventDecoder().feed(encode_event("x", b'{"a":1}')) == [(b"x", b'{"a":1}')]
