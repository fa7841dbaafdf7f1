"""The watchdog measures the event loop and logs the stack of a blocked one, without values."""

import asyncio
import logging
import time

import pytest

from proxy.process import loop_watchdog
from proxy.process.loop_watchdog import Watchdog
from proxy.telemetry.log_format import JSONFormatter, TextFormatter
from tests.support.metrics import scrape, value
from tests.support.waiting import wait_for


@pytest.fixture
def records():
    logged = []
    handler = logging.Handler()
    handler.emit = logged.append
    loop_watchdog.logger.addHandler(handler)
    yield logged
    loop_watchdog.logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch):
    monkeypatch.setattr(loop_watchdog, "_TICK", 0.1)
    monkeypatch.setattr(loop_watchdog, "BLOCKED", 0.4)


def block_the_loop(seconds):
    secret = "sk-canary-in-a-variable"
    time.sleep(seconds)
    return secret


def lags_of_blocks(*pauses):
    """Return the lags that the watchdog measures while the loop is blocked for each pause."""
    lags = []

    async def main():
        watching = asyncio.create_task(Watchdog(lags.append).run())
        await asyncio.sleep(0.3)  # three ticks, so that the watchdog has a first measurement
        for seconds in pauses:
            block_the_loop(seconds)
            await asyncio.sleep(0.3)
        watching.cancel()

    asyncio.run(main())
    return lags


@pytest.mark.realtime
def test_a_blocked_loop_is_measured_and_its_stack_is_logged_once_a_minute(records):
    lags = lags_of_blocks(1.2, 1.2)
    assert sum(lag > 0.8 for lag in lags) == 2
    (record,) = records
    for formatter in (JSONFormatter(), TextFormatter()):
        line = formatter.format(record)
        assert "the event loop has been blocked for" in line
        assert "block_the_loop" in line
        assert "test_loop_watchdog.py" in line
        assert "canary" not in line.replace('secret = "sk-canary-in-a-variable"', "")


@pytest.mark.realtime
def test_a_busy_loop_is_not_reported_as_blocked(records):
    lags = lags_of_blocks(0.1, 0.1)
    assert records == []
    assert len(lags) >= 3


def test_the_lag_of_the_event_loop_is_a_metric(gateway):
    wait_for(lambda: value(scrape(gateway.url), "athena_loop_lag_seconds_count") > 0)
