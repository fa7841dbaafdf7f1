"""A plugin of pytest's: the suite's own properties, again and again, until time is up.

In each round every property is tried on as many new examples as in the suite, in an order of its
own: however short the time, chance decides who has a turn, and the summary says how many had.
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

    @pytest.hookimpl(trylast=True)  # who is a property is marked by another plugin
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
        """True leaves it out."""
        if time.monotonic() > self._end:
            self._is_late = True
            return True
        self._reached.add(item.nodeid)
        self._runs += 1
        return None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        ended = f"{_SECONDS:g} s were up" if self._is_late else f"all {_ROUNDS} rounds were made"
        terminalreporter.write_line(
            f"laws: {len(self._reached)} of {self._properties} properties were tried, in "
            f"{self._runs} turns; {ended}"
        )


def pytest_configure(config: Any) -> None:
    config.pluginmanager.register(Rounds())
