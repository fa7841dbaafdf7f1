"""A loop that is blocked is told of, with the place and without values, and measured."""

import asyncio
import logging
import time

import pytest

from proxy.process import loop_watchdog
from proxy.process.loop_watchdog import Watchdog
from proxy.telemetry.log_format import JSONFormatter, TextFormatter
from tests.support.metrics import scrape, value


@pytest.fixture
def records():
    made = []
    handler = logging.Handler()
    handler.emit = made.append
    loop_watchdog.logger.addHandler(handler)
    yield made
    loop_watchdog.logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def faster(monkeypatch):
    monkeypatch.setattr(loop_watchdog, "_TICK", 0.1)
    monkeypatch.setattr(loop_watchdog, "BLOCKED", 0.4)


def a_slow_thing(seconds):
    secret = "sk-canary-in-a-variable"
    time.sleep(seconds)
    return secret


def watched(*pauses):
    """The lags that are seen while the loop is blocked for so long, again and again."""
    lags = []

    async def main():
        watching = asyncio.create_task(Watchdog(lags.append).run())
        await asyncio.sleep(0.3)
        for seconds in pauses:
            a_slow_thing(seconds)
            await asyncio.sleep(0.3)
        watching.cancel()

    asyncio.run(main())
    return lags


@pytest.mark.realtime
def test_a_blocked_loop_is_logged_with_its_place_once_a_minute_and_measured(records):
    lags = watched(1.2, 1.2)
    assert sum(lag > 0.8 for lag in lags) == 2
    (record,) = records
    for formatter in (JSONFormatter(), TextFormatter()):
        line = formatter.format(record)
        assert "the event loop is blocked for" in line
        assert "a_slow_thing" in line
        assert "test_loop_watchdog.py" in line
        assert "canary" not in line.replace('secret = "sk-canary-in-a-variable"', "")


@pytest.mark.realtime
def test_a_loop_that_is_merely_busy_is_not_called_blocked(records):
    lags = watched(0.1, 0.1)
    assert records == []
    assert len(lags) >= 3


def test_the_lag_of_a_gateways_loop_is_among_its_metrics(gateway):
    assert value(scrape(gateway.url), "athena_loop_lag_seconds_count") > 0
