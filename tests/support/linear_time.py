"""Checks that CPU time grows linearly with the input."""

import time
from collections.abc import Callable


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Return whether twice the size takes twice the time, at best of up to 30 measurements.

    Other processes can only make a measurement worse, so the best ones are compared.
    """
    once = twice = float("inf")
    for attempt in range(30):
        once = min(once, _cost(work, size))
        twice = min(twice, _cost(work, 2 * size))
        if attempt and twice <= 2.6 * once + 0.002:
            return True
    return False


def _cost(work: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    work(size)
    return time.process_time() - began
