"""Bodies that are not answers, such as the page of a proxy, are named in the error."""

import gzip
import json

import pytest

from formats import describe_body, is_foreign
from tests.support.chat import ask, error_of, reply
from tests.support.scripted_upstream import whole

PAGE = b"""<!DOCTYPE html>
<html><head><title>
  502 Bad &amp; Broken\x07 \xe2\x80\xae Gateway</title></head><body>x</body></html>"""
BODIES = {
    "a page": (PAGE, "text/html; charset=utf-8", "a web page", "502 Bad & Broken Gateway"),
    "a page with a wrong type": (PAGE, "application/json", "a web page", "502 Bad & Broken Gateway"),
    "a page without a title": (b"<html><body>x</body></html>", "text/html", "a web page", ""),
    "plain text": (b"upstream connect error\r\nreset", "text/plain", "text", "upstream connect error reset"),
    "text with a wrong type": (b"no healthy upstream", "text/event-stream", "text", "no healthy upstream"),
    "Latin-1": ("Dienst nicht verf\xfcgbar".encode("latin-1"), "text/plain; charset=iso-8859-1", "text", "Dienst nicht verf\xfcgbar"),
    "an unknown charset": (b"busy", "text/plain; charset=klingon", "text", "busy"),
    "a charset that is no text": (b"busy", "text/plain; charset=zlib", "text", "busy"),
    "UTF-16": ("busy".encode("utf-16"), "text/plain", "text", "busy"),
    "XML": (b"<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>", "application/xml", "XML", "SlowDown"),
    "binary data": (gzip.compress(b"x" * 999), "application/octet-stream", "binary data", ""),
    "nothing": (b"", "text/html", "an empty body", ""),
    "blank": (b" \r\n ", "text/plain", "an empty body", ""),
    "a number": (b"1", "application/json", "JSON that is not an answer", "1"),
    "null": (b"null", "application/json", "JSON that is not an answer", "null"),
    "very long text": (b"words " * 90_000, "text/plain", "text", "words words"),
}  # fmt: skip


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("status", [200, 502])
@pytest.mark.parametrize("case", BODIES)
def test_n1_a_body_that_is_no_answer_is_named(client, upstream, model, case, status, streamed):
    """N1: a web page was reported as an answer that broke off."""
    body, content_type, kind, quote = BODIES[case]
    upstream.script(model, reply(body, content_type=content_type, status=status))
    response = client.post("/v1/messages", json=ask(model, stream=streamed))
    got, _, message = error_of(response)
    media_type = content_type.split(";")[0]
    assert got >= 500
    assert f" sent {kind} (HTTP {status}, {media_type})" in message
    assert quote in message
    assert message.isprintable()
    assert "<" not in message
    assert len(message) < 400


def test_n1_json_with_an_error_status_is_named(client, upstream, model):
    """N1: a body without any message."""
    upstream.script(model, whole({"code": 1301}, 500))
    message = error_of(client.post("/v1/messages", json=ask(model)))[2]
    assert 'sent JSON that is not an answer (HTTP 500, application/json): {"code"' in message


def test_n1_the_beginning_of_a_stream_is_never_taken_for_something_else():
    """N1: at any split, with any field first."""
    for line in (
        b"data: {}",
        b"event: x",
        b"id: 1",
        b"retry: 5",
        b": comment",
        b"data",
        b'{"a"',
        b"[",
    ):
        for end in range(1, len(line) + 1):
            assert not is_foreign(line[:end]), line[:end]
    assert not is_foreign(b"foo: bar", "text/event-stream")
    for start in (b"<", b"<html>", b"Error: x", b"identity", b"1", b'"x"', b"null", b"\x1f\x8b"):
        assert is_foreign(start), start


@pytest.mark.parametrize(
    "content_type", ["", "x" * 5000, "text/html; charset=\x00", "a/b;charset=utf_8_sig"]
)
def test_n1_hostile_types_and_titles_are_bounded(content_type):
    """N1: everything in such an answer is foreign text."""
    title = "<title>" + json.dumps("\u202e\x1b[31m" * 9999) + "</title>"
    page = describe_body(b"<html>" + title.encode(), content_type)
    assert page.kind == "a web page"
    assert page.quote == "" or (page.quote.isprintable() and len(page.quote) <= 200)
