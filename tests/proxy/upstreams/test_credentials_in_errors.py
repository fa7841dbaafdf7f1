"""An upstream's error does not hand the gateway's credentials to the client (U19)."""

import json
from html import escape
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from proxy.configuration.upstream import Upstream, _spellings
from proxy.upstreams.answer_headers import redact_credentials

SECRET = 'tok/en+of="header"&x'


@pytest.mark.parametrize(
    "spell",
    [str, json.dumps, escape, quote, lambda text: quote(text, safe="").lower()],
)
def test_no_usual_spelling_of_a_credential_is_left(spell):
    message = f"bad token {spell(SECRET)} here"
    upstream = SimpleNamespace(secrets=lambda: (SECRET,), _secrets=(SECRET,))
    clean = redact_credentials(message, upstream)
    body = json.dumps({"message": message}).encode()
    for text in (clean, Upstream.redact(upstream, body).decode()):
        assert "[redacted]" in text
        assert "bad token " in text
        assert " here" in text
        assert "header" not in text


def test_a_credential_of_backslashes_alone_replaces_nothing_else():
    upstream = SimpleNamespace(secrets=lambda: ("\\\\",))
    assert redact_credentials("as it is", upstream) == "as it is"
    assert _spellings("\\\\").sub(b"", b"as it is") == b"as it is"
