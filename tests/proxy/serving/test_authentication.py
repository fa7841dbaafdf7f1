"""Client keys: a rejection names the header at fault, and reveals nothing about the key."""

import statistics
import time
from datetime import UTC, datetime
from math import erfc, sqrt
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from proxy.configuration.snapshot import Key
from proxy.errors import GatewayError
from proxy.models.keys import digest_of
from proxy.serving.authentication import authenticate
from proxy.serving.request import GatewayRequest
from tests.support.chat import ask
from tests.support.gateway import KEY
from tests.support.metrics import scrape, value
from tests.support.raw_client import ask_raw, post
from tests.support.waiting import wait_for

GOOD = "sk-athena-" + "g" * 40
EXPIRED = "sk-athena-" + "e" * 40
BAD = {
    "of another length": "x",
    "unknown": "sk-athena-" + "u" * 40,
    "nearly right": GOOD[:-1] + "h",
    "expired": EXPIRED,
}


KNOWN = {
    digest_of(GOOD): Key(1, "good", (), None, True),
    digest_of(EXPIRED): Key(2, "expired", (), datetime(2020, 1, 1, tzinfo=UTC), True),
}


def differ(one: list[float], two: list[float]) -> float:
    """Return the probability that equal distributions differ this much (Mann-Whitney test)."""
    ranked = sorted([(seconds, 0) for seconds in one] + [(seconds, 1) for seconds in two])
    rank_sum = sum(rank for rank, (_, which) in enumerate(ranked, 1) if which == 0)
    expected = len(one) * (len(ranked) + 1) / 2
    spread = sqrt(len(one) * len(two) * (len(ranked) + 1) / 12)
    return erfc(abs(rank_sum - expected) / spread / sqrt(2))


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_the_time_of_a_refusal_reveals_nothing_about_the_key(bad):
    """A key is looked up by its hash, so nothing is compared character by character.

    Each round asks for both in turns. Chance alone fails a round now and then; a real difference
    fails all of them.
    """
    configuration: Any = SimpleNamespace(is_fresh=True)
    snapshot: Any = SimpleNamespace(keys=KNOWN)

    def refused(key: str) -> float:
        headers = [(b"x-api-key", key.encode())]
        scope = {"type": "http", "method": "POST", "path": "/v1/messages", "headers": headers}
        request = GatewayRequest(scope)
        began = time.perf_counter()
        with pytest.raises(GatewayError):
            authenticate(request, configuration, snapshot)
        return time.perf_counter() - began

    other, likely, apart = "sk-athena-" + "o" * 40, [], []
    for _ in range(5):
        ours, theirs = [], []
        for _ in range(1000):
            ours.append(refused(bad))
            theirs.append(refused(other))
        likely.append(differ(ours, theirs))
        apart.append(abs(statistics.median(ours) - statistics.median(theirs)))
    # Significant, and large enough to be measured through a network.
    assert max(likely) > 0.001 or min(apart) < 20e-6


def test_refused_keys_are_counted_by_reason_and_leave_no_row(gateway, model):
    def counted():
        found = scrape(gateway.url)
        reasons = ("missing", "unknown", "expired")
        return [value(found, "athena_refused_keys_total", reason=reason) for reason in reasons]

    gateway.edit(
        "from datetime import datetime, UTC\n"
        "k = ClientKey(label='over', expires_at=datetime(2020, 1, 1, tzinfo=UTC))\n"
        "k.adopt('sk-athena-that-is-over'); k.save()"
    )
    before = counted()
    for key in ("", "sk-athena-unknown-key", "sk-athena-that-is-over"):
        seen = ask_raw(gateway.port, post(ask(model), key=key))
        assert (seen.status, seen.code) == (401, "invalid_key")
        assert seen.headers["www-authenticate"] == "Bearer"
        assert seen.headers["x-should-retry"] == "false"
    wait_for(lambda: counted() == [count + 1 for count in before])
    assert gateway.rows("SELECT id FROM proxy_exchange WHERE model = ?", model) == []


def test_a_key_in_the_query_string_is_ignored_and_not_logged(gateway, model):
    url = f"{gateway.url}/v1/messages?key={KEY}&api_key={KEY}&x-api-key={KEY}"
    response = httpx.post(url, json=ask(model))
    assert response.status_code == 401
    assert KEY not in response.text
    wait_for(lambda: response.headers["request-id"] in gateway.log)
    # The start message shows a key that was just created; a given key is never written.
    assert KEY not in gateway.log


def test_a_repeated_key_header_or_one_with_an_underscore_is_refused(gateway, model):
    twice = post(ask(model), f"x-api-key: {KEY}")
    assert ask_raw(gateway.port, twice).status == 401
    assert ask_raw(gateway.port, post(ask(model), f"x_api_key: {KEY}", key="")).status == 401


REFUSALS = {
    "no header": ([], "neither an x-api-key nor an authorization header"),
    "an empty x-api-key": (["x-api-key:"], "the x-api-key header is empty"),
    "an empty authorization": (["authorization: "], "the authorization header is empty"),
    "Bearer without a key": (["authorization: Bearer"], "nothing after `Bearer`"),
    "Bearer and spaces": (["authorization: bearer   "], "nothing after `Bearer`"),
    "Basic": (["authorization: Basic YTpi"], "does not start with `Bearer `"),
    "a key without Bearer": ([f"authorization: {KEY}"], "does not start with `Bearer `"),
    "an unknown x-api-key": (["x-api-key: unknown-key"], "in the x-api-key header: it is unknown"),
    "an unknown bearer": (["authorization: Bearer unknown-key"], "in the authorization header: it"),
    "a space inside": (["x-api-key: $(cat var/client_key)"], "contains a space"),
    "a tab inside": (["authorization: Bearer un\tknown"], "contains a space"),
    "another alphabet": (["x-api-key: sk-athena-\xfcber"], "contains a space or a character"),
    "a key of OpenRouter": (["x-api-key: sk-or-v1-unknown"], "a key of OpenRouter"),
    "a key of Anthropic": (["authorization: Bearer sk-ant-unknown"], "a key of Anthropic"),
}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize(("headers", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_says_which_header_is_wrong_and_how(gateway, model, headers, message, path):
    """N9. In both dialects, and without repeating the value that the client sent."""
    lines = [f"POST {path} HTTP/1.1", "host: x", "content-length: 0", *headers]
    seen = ask_raw(gateway.port, "\r\n".join((*lines, "", "")).encode("latin-1"))
    assert (seen.status, seen.code) == (401, "invalid_key")
    text = seen.json["error"]["message"]
    assert message in text
    if text.startswith("no client key"):
        assert "Send a client key as `x-api-key: KEY` or `Authorization: Bearer KEY`." in text
    assert not any(secret in text for secret in (KEY, "YTpi", "unknown-key", "v1-unknown"))


@pytest.mark.parametrize("header", ["x-api-key: {}", "authorization: Bearer {}"])
def test_a_key_that_expired_gets_the_same_answer_as_an_unknown_one(gateway, header):
    """N9. The key looks like one of OpenRouter: the text follows from its characters alone."""
    expired, unknown = "sk-or-v1-expired-long-ago", "sk-or-v1-never-issued-ever"
    gateway.edit(
        "from datetime import datetime, UTC\n"
        "k = ClientKey(label='expired', expires_at=datetime(2020, 1, 1, tzinfo=UTC))\n"
        f"k.adopt({expired!r}); ClientKey.objects.filter(digest=k.digest).exists() or k.save()"
    )
    lines = ["GET /v1/models HTTP/1.1", "host: x"]
    seen = [
        ask_raw(gateway.port, "\r\n".join((*lines, header.format(key), "", "")).encode())
        for key in (expired, unknown)
    ]
    messages = [answer.json["error"]["message"].partition(" (request ")[0] for answer in seen]
    assert messages[0] == messages[1]


def test_two_keys_that_conflict_are_refused_and_an_empty_one_is_ignored(gateway, model):
    """N9. `post` sends a valid key as x-api-key."""
    seen = ask_raw(gateway.port, post(ask(model), "authorization: Bearer unknown-key"))
    assert (seen.status, seen.code) == (400, "ambiguous_credentials")
    assert "unknown-key" not in seen.json["error"]["message"]
    for ignored in ("authorization: Bearer ", "authorization: Basic YTpi", f"authorization: {KEY}"):
        assert ask_raw(gateway.port, post(ask(model), ignored)).code != "invalid_key"


def test_a_missing_key_is_refused_while_the_database_is_unreachable():
    """N9. Only a key that was sent might be valid; without one there is nothing to wait for."""
    configuration: Any = SimpleNamespace(is_fresh=False)
    snapshot: Any = SimpleNamespace(keys=KNOWN)
    codes = []
    for headers in ([], [(b"x-api-key", b"sk-athena-created-elsewhere")]):
        scope = {"type": "http", "method": "POST", "path": "/v1/messages", "headers": headers}
        with pytest.raises(GatewayError) as refused:
            authenticate(GatewayRequest(scope), configuration, snapshot)
        codes.append(refused.value.code)
    assert codes == ["invalid_key", "keys_unavailable"]
