"""Client keys: every invalid key gets the same answer, in the same time."""

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
