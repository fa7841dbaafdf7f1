"""Pytest plugin that repeats the property tests of the suite until the time is up.

Each round runs every property on as many new examples as in the suite, in random order, so that a
short run still covers a random part of them. The summary says how many properties were run.
"""

import os
import random
import time
from typing import Any

import pytest
from hypothesis import settings

_ROUNDS = 25
_SECONDS = float(os.environ.get("FUZZ_SECONDS", "180"))


class Rounds:
    def __init__(self) -> None:
        self._end = 0.0
        self._properties = 0
        self._reached: set[str] = set()
        self._runs = 0
        self._is_late = False

    @pytest.hookimpl(trylast=True)  # after Hypothesis' plugin has marked the properties
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for item in items:
            test = item.obj
            if (given := getattr(test, "_hypothesis_internal_use_settings", None)) is not None:
                test._hypothesis_internal_use_settings = settings(
                    given, derandomize=False, deadline=None
                )
        chosen = [item for item in items if item.get_closest_marker("hypothesis")]
        self._properties = len(chosen)
        items[:] = [item for _ in range(_ROUNDS) for item in random.sample(chosen, len(chosen))]
        self._end = time.monotonic() + _SECONDS

    def pytest_runtest_protocol(self, item: Any) -> bool | None:
        """Return True to skip the test."""
        if time.monotonic() > self._end:
            self._is_late = True
            return True
        self._reached.add(item.nodeid)
        self._runs += 1
        return None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        reason = f"{_SECONDS:g} s are over" if self._is_late else f"all {_ROUNDS} rounds are done"
        terminalreporter.write_line(
            f"laws: {len(self._reached)} of {self._properties} properties were run, "
            f"{self._runs} runs in all; {reason}"
        )


def pytest_configure(config: Any) -> None:
    config.pluginmanager.register(Rounds())
