"""Invalid configuration values are rejected, and the error names them."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from hypothesis import given
from hypothesis import strategies as st

from proxy.configuration.upstream import read_upstream
from proxy.models import (
    ClientKey,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.models.keys import digest_of, new_key, prefix_of
from proxy.security.vault import SecretUnreadable, seal, unseal
from proxy.validators import validate_base_url

pytestmark = pytest.mark.django_db


def make_upstream(**fields):
    return Upstream(**{"name": "u", "base_url": "https://example.org/v1", **fields})


BAD_URLS = [
    "",
    "example.org",
    "ftp://example.org",
    "file:///etc/passwd",
    "https://",
    "https://user:secret@example.org",
    "https://example.org?x=1",
    "https://example.org/#x",
    "https://example.org:99999",
    "https://example .org",
    "https://example.org\n",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_an_invalid_base_url_is_rejected(url):
    with pytest.raises(ValidationError) as caught:
        make_upstream(base_url=url).full_clean()
    assert set(caught.value.message_dict) == {"base_url"}


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "https://example.org", "http://[::1]/v1"]
)
def test_a_valid_base_url_is_accepted(url):
    make_upstream(base_url=url).full_clean()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "two words"),
        ("dialect", "klingon"),
        ("service", "unknown"),
        ("key_variable", "not a variable"),
        ("headers", ["x"]),
        ("headers", {"authorization": "Bearer x"}),
        ("headers", {"host": "x"}),
        ("headers", {"bad name": "x"}),
        ("headers", {"x-good": "line\nbreak"}),
        ("headers", {"x-good": 1}),
        ("provider_preferences", {"order": ["x"]}),
        ("connect_timeout", 0),
        ("first_byte_timeout", -1),
        ("idle_timeout", 1e9),
        ("progress_timeout", 0),
        ("total_timeout", 1e9),
    ],
)
def test_an_invalid_upstream_is_rejected(field, value):
    with pytest.raises(ValidationError) as caught:
        make_upstream(**{field: value}).full_clean()
    assert set(caught.value.message_dict) == {field}


@pytest.mark.parametrize("pattern", ["", "(a+)+$", "a b", "x" * 201, "naïve", "a\nb"])
def test_a_pattern_is_a_glob_of_model_names(pattern):
    with pytest.raises(ValidationError) as caught:
        FormatOverride(pattern=pattern, format="kimi").full_clean()
    assert set(caught.value.message_dict) == {"pattern"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", "klingon"),
        ("buffer_limit", 10),
        ("buffer_limit", 10**9),
        ("context_warning", 1),
        ("markers", ["x"]),
        ("markers", {"SECTION_BEGIN": "<|x|>"}),
        ("markers", {"SECTION_BEGIN": ["x"]}),
        ("markers", {"NO_SUCH_TOKEN": ["<|x|>"]}),
    ],
)
def test_invalid_format_settings_are_rejected(field, value):
    with pytest.raises(ValidationError) as caught:
        FormatSettings(**{"format": "kimi", field: value}).full_clean()
    assert set(caught.value.message_dict) == {field}


@pytest.mark.parametrize("field", ["max_line_bytes", "max_event_bytes", "max_answer_bytes"])
@pytest.mark.parametrize("value", [0, 10, 2**31 - 1])
def test_answer_limits_have_bounds(field, value):
    with pytest.raises(ValidationError) as caught:
        GatewaySettings(pk=1, **{field: value}).full_clean()
    assert set(caught.value.message_dict) == {field}


def test_the_error_of_an_unknown_marker_names_the_existing_tokens():
    with pytest.raises(ValidationError, match="unknown token 'X'; this format has ARGUMENTS_BEGIN"):
        FormatSettings(format="kimi", markers={"X": ["<|x|>"]}).full_clean()


def test_circular_fallbacks_are_rejected():
    one = make_upstream()
    one.save()
    a = ModelRoute.objects.create(pattern="a", upstream=one)
    b = ModelRoute.objects.create(pattern="b", upstream=one, fallback=a)
    a.fallback = b
    with pytest.raises(ValidationError, match="b falls back to this route"):
        a.full_clean()


def test_an_upstream_in_use_cannot_be_deleted():
    one = make_upstream()
    one.save()
    ModelRoute.objects.create(pattern="a", upstream=one)
    with pytest.raises(IntegrityError):
        one.delete()


def test_only_one_row_of_gateway_settings_can_exist():
    with pytest.raises(IntegrityError), transaction.atomic():
        GatewaySettings.objects.create(pk=2)


def test_a_stored_key_is_encrypted_in_the_database():
    one = make_upstream()
    one.store_key("sk-canary-of-this-test")
    one.save()
    row = Upstream.objects.filter(pk=one.pk).values().get()
    assert "canary" not in str(row)
    assert Upstream.objects.get(pk=one.pk).read_key() == "sk-canary-of-this-test"


def test_a_key_and_a_variable_exclude_one_another():
    one = make_upstream(key_variable="SOME_API_KEY")
    one.sealed_key = seal("x")
    with pytest.raises(ValidationError, match="not both"):
        one.full_clean()


def test_a_value_encrypted_with_another_secret_cannot_be_read(settings):
    sealed = seal("secret")
    settings.SECRET_KEY = "another secret that is long enough, too"
    with pytest.raises(SecretUnreadable):
        unseal(sealed)


@pytest.mark.parametrize("key", ["", "short", "with a space in it", "umlaut-ümlaut-ümlaut"])
def test_a_weak_client_key_is_rejected(key):
    with pytest.raises(ValidationError):
        ClientKey(label="x").adopt(key)


def test_only_the_hash_of_a_client_key_is_stored():
    key, row = new_key(), ClientKey(label="x")
    row.adopt(key)
    row.save()
    stored = ClientKey.objects.filter(pk=row.pk).values().get()
    assert key not in str(stored)
    assert (stored["digest"], stored["prefix"]) == (digest_of(key), prefix_of(key))


def test_the_prefix_of_a_short_key_does_not_reveal_it():
    row = ClientKey(label="x")
    row.adopt("eight888")
    assert row.prefix == "ei"
    row.adopt(new_key())
    assert len(row.prefix) == 16


@pytest.mark.parametrize("models", ["kimi", [1], ["a b"]])
def test_allowed_models_must_be_a_list_of_patterns(models):
    row = ClientKey(label="x", allowed_models=models)
    row.adopt(new_key())
    with pytest.raises(ValidationError) as caught:
        row.full_clean()
    assert set(caught.value.message_dict) == {"allowed_models"}


NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def test_the_hint_of_an_upstream_key_shows_its_source_or_its_end():
    row = make_upstream()
    assert row.key_hint() == "none"
    row.store_key("short")
    assert row.key_hint() == "stored"
    row.store_key("sk-or-v1-of-some-length")
    assert row.key_hint() == "…ngth"
    row.sealed_key = "not sealed with this secret"
    assert row.key_hint() == "unreadable"
    assert make_upstream(key_variable="HOUSE_API_KEY").key_hint() == "$HOUSE_API_KEY"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://xn--a", "'xn--a' is not a valid international host name"),
        ("http://a.xn--\x7f.example", "U+007F"),
        ("http://host\x7f/v1", "the character U+007F, which a URL cannot have"),
        ("http://host/\x00", "U+0000"),
        ("http://host/a b", "U+0020"),
        ("http://host/v1\n", "U+000A"),
        ("http://ⓛocalhost", "the character ⓛ; write the host in its ASCII form"),
        ("http://bücher.example", "the character ü; write the host in its ASCII form"),
        ("http://host\u3002example", "。"),
        ("http://host\u200b.example", "U+200B"),
        ("http://１２７.0.0.1", "１"),
        ("http://host\\@evil.example", "the character \\"),
        ("http://user@host", "must not have a user"),
        ("http://user:password@host", "must not have a user"),
        ("http://@host", "must not have a user"),
        ("http://host/v1#", "a query or a fragment"),
        ("http://host/v1?", "a query or a fragment"),
        ("http://host/v1?a=b", "a query or a fragment"),
        ("http://host:0", "from 1 to 65535"),
        ("http://host:65536", "from 1 to 65535"),
        ("http://host:" + "9" * 200, "from 1 to 65535"),
        ("http://host:", "from 1 to 65535"),
        ("http://host:٣", "ASCII"),
        ("http://host:8a", "it needs a host"),
        ("http://host:1:2", "it needs a host"),
        ("http://:80", "it needs a host"),
        ("http://", "it needs a host"),
        ("http:///v1", "it needs a host"),
        ("http:host", "must start with http:// or https://"),
        ("ftp://host", "must start with http:// or https://"),
        ("//host", "must start with http:// or https://"),
        ("", "must start with http:// or https://"),
        ("http://[fe80::1%25eth0]", "cannot have a zone"),
        ("http://[fe80::1%eth0]", "cannot have a zone"),
        ("http://[::1", "it needs a host"),
        ("http://[::1]x", "it needs a host"),
        ("http://[v1.x]", "not a valid IPv6 address"),
        ("http://[1.2.3.4]", "not a valid IPv6 address"),
        ("http://host.example.", "must not end with a dot"),
        ("http://host..example", "not a valid host name"),
        ("http://-host", "not a valid host name"),
        ("http://" + "a" * 64, "not a valid host name"),
        ("http://" + ".".join(["a" * 60] * 5), "not a valid host name"),
        ("http://%65vil.example", "not a valid host name"),
        ("http://127.0.0.1%2f.example", "not a valid host name"),
        ("http://1.2.3.4.5", "write it as four numbers"),
        ("http://999.1.1.1", "write it as four numbers"),
        ("http://127.1", "write it as four numbers"),
        ("http://2130706433", "write it as four numbers"),
        ("http://0x7f.0.0.1", "write it as four numbers"),
        ("http://evil.0x7f", "write it as four numbers"),
        ("http://127.0.0.01", "write it as four numbers"),
    ],
)
def test_an_unusable_base_url_is_refused_with_the_reason(url, reason):
    """N11"""
    with pytest.raises(ValidationError) as caught:
        make_upstream(base_url=url).full_clean()
    message = " ".join(caught.value.message_dict["base_url"])
    assert reason in message or (url == "" and "cannot be blank" in message)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8001/v1",
        "http://localhost",
        "HTTPS://Host.Example/V1/",
        "http://[::1]:8000/v1",
        "http://my_server-1:65535",
        "https://xn--bcher-kva.example/v1",
        "https://host.example/a/../b/%20x;y=1,2/@~",
        "http://4chan.example",
        "http://a.b4",
    ],
)
def test_every_accepted_base_url_can_be_used(url):
    """N11: what the form accepts makes a URL, an origin and a request head."""
    row = make_upstream(base_url=url)
    row.full_clean()
    upstream = read_upstream(row)
    assert upstream.trouble == ""
    assert b"Host: " in upstream.head


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_no_accepted_base_url_fails_later(rest):
    """N11: any text, as a host with a path."""
    row = make_upstream(base_url=f"http://{rest}")
    with suppress(ValidationError):
        validate_base_url(row.base_url)
        read_upstream(row)
