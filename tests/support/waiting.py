"""Waiting for a condition instead of for a duration."""

import time
from collections.abc import Callable
from typing import TypeVar

_Value = TypeVar("_Value")


def wait_for(condition: Callable[[], _Value], seconds: float = 60.0) -> _Value:
    """Return the first true value of the condition.

    The deadline is generous, so that even a busy machine reaches it only if the condition never
    comes true.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"still false after {seconds:g} seconds"
        time.sleep(0.02)
    return value
