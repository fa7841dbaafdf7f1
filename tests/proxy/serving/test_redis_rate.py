"""Requests per minute, counted in a real Redis that is killed and frozen."""

import asyncio
import logging
import time
from contextlib import ExitStack

import pytest

from proxy.serving import redis_rate
from proxy.serving.rate import LocalRate, rate_at
from proxy.serving.redis_rate import RedisRate
from tests.support.chat import ask, says
from tests.support.client_keys import MAKE_KEY
from tests.support.gateway import Gateway
from tests.support.metrics import scrape, value
from tests.support.redis_server import Redis
from tests.support.waiting import wait_for


@pytest.fixture
def redis():
    redis = Redis().start()
    yield redis
    redis.kill()


@pytest.fixture
def patient(monkeypatch):
    """A busy machine must not look like an outage of Redis."""
    monkeypatch.setattr(redis_rate, "_TIMEOUT_SECONDS", 10.0)


@pytest.fixture
def log(caplog):
    logging.getLogger("athena").propagate = True
    with caplog.at_level(logging.INFO, "athena.rate"):
        yield caplog
    logging.getLogger("athena").propagate = False


async def hits(rate, count, *, limit, key_id=1):
    """Return how many of `count` requests were admitted."""
    return [await rate.count_request(key_id, limit) for _ in range(count)].count(None)


async def until(rate, is_away):
    deadline = time.monotonic() + 60
    while (rate._reconnecting is not None) is not is_away:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def test_without_an_address_each_process_counts_for_itself():
    assert isinstance(rate_at(""), LocalRate)
    assert isinstance(rate_at("redis://127.0.0.1:1/0"), RedisRate)


def test_processes_share_a_keys_rate_and_keys_are_counted_apart(redis, patient):
    async def main():
        one, two = RedisRate(redis.url), RedisRate(redis.url)
        assert await hits(one, 3, limit=5) == 3
        assert await hits(two, 5, limit=5) == 2
        wait = await one.count_request(1, 5)
        assert 1 <= wait <= 60
        assert await hits(two, 2, limit=7) == 2, "a raised limit counts the earlier requests"
        assert await hits(two, 3, limit=2, key_id=2) == 2
        assert await hits(one, 1, limit=0, key_id=3) == 0
        await one.close()
        await two.close()

    asyncio.run(main())


def test_concurrent_requests_do_not_exceed_the_limit(redis, patient):
    async def main():
        rates = [RedisRate(redis.url) for _ in range(4)]
        admitted = await asyncio.gather(*(hits(rate, 50, limit=30) for rate in rates))
        assert sum(admitted) == 30
        for rate in rates:
            await rate.close()

    asyncio.run(main())


@pytest.mark.realtime
@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_requests_do_not_wait_for_a_redis_outage_and_redis_is_used_again_after_it(
    redis, log, fault, monkeypatch
):
    monkeypatch.setattr(redis_rate, "_RECONNECT_SECONDS", 0.1)

    async def main():
        rate = RedisRate(redis.url)
        assert await hits(rate, 1, limit=5) == 1
        getattr(redis, fault)()
        began = time.monotonic()
        assert await rate.count_request(1, 5) is None
        assert time.monotonic() - began < 1  # 0.15 s on an idle machine
        began = time.monotonic()
        assert await hits(rate, 100, limit=5) == 4, "the process counts, and keeps to the limit"
        assert time.monotonic() - began < 1, "other requests do not wait"
        await asyncio.sleep(0.6)  # several reconnects, but one line in the log
        assert [r.levelname for r in log.records].count("WARNING") == 1
        assert str(redis.port) not in log.text
        redis.start() if fault == "kill" else redis.thaw()
        await until(rate, is_away=False)
        assert await rate.count_request(1, 5) is None
        assert [r.levelname for r in log.records] == ["WARNING", "INFO"]
        await rate.close()

    asyncio.run(main())


def test_a_redis_that_was_never_reachable_does_no_harm(log):
    async def main():
        rate = RedisRate("redis://:canary-password@127.0.0.1:1/0")
        assert await hits(rate, 4, limit=3) == 3
        await rate.close()

    asyncio.run(main())
    assert "canary" not in log.text


def test_two_workers_share_a_keys_rate_before_and_after_a_redis_outage(redis, upstream, tmp_path):
    gateway = Gateway(
        tmp_path,
        OPENROUTER_API_KEY="sk-or-canary-of-the-upstream",
        OPENROUTER_BASE_URL=upstream.url,
        ATHENA_WORKERS="2",
        REDIS_URL=redis.url,
    ).start()
    upstream.script("test/shared", says("Hi"))

    def statuses(client, count):
        # One connection per request, so that both workers answer.
        close = {"connection": "close"}
        asked = [
            client.post("/v1/messages", json=ask("test/shared"), headers=close)
            for _ in range(count)
        ]
        return [response.status_code for response in asked]

    def fallbacks():
        return value(scrape(gateway.url), "athena_redis_fallbacks_total")

    try:
        names = ("sk-athena-first", "sk-athena-second", "sk-athena-third", "sk-athena-any")
        gateway.edit(
            "\n".join(
                MAKE_KEY.format(name, f"requests_per_minute={limit}")
                for name, limit in zip(names, (6, 6, 6, 10_000), strict=True)
            )
        )
        with ExitStack() as clients:
            first, second, third, unlimited = (
                clients.enter_context(gateway.client(**{"x-api-key": name})) for name in names
            )

            def both_count_in_redis():
                before = fallbacks()
                return set(statuses(unlimited, 12)) == {200} and fallbacks() == before

            assert statuses(first, 20).count(200) == 6
            assert fallbacks() == 0
            redis.freeze()
            assert set(statuses(second, 6)) == {200}, "no request fails"
            wait_for(lambda: fallbacks() >= 6)
            redis.thaw()
            wait_for(lambda: gateway.log.count("Redis answers again") >= 1)
            redis.kill()
            assert set(statuses(second, 3)) <= {200, 429}
            redis.start()
            wait_for(both_count_in_redis)
            assert statuses(third, 20).count(200) == 6
    finally:
        gateway.stop()
    assert "Traceback" not in gateway.log
