"""Checks that CPU time grows linearly with the input, and counts the work of reading a text."""

import time
from collections.abc import Callable
from cProfile import Profile

from formats import Limits, TextDelta, Toolbox
from formats.native.format import NativeFormat
from formats.native.rescue import CallRescue


def work(native: NativeFormat | None, text: str, piece: int) -> tuple[int, int]:
    """Return the function calls to read a text in pieces, and the most characters held."""
    assert native
    transform = CallRescue(native, Toolbox(), Limits(held_chars=1 << 30))
    held = 0
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    with Profile() as profile:
        for part in pieces:
            transform.feed([TextDelta(part)])
            held = max(held, len(transform._scanner._pending))
    return sum(entry.callcount for entry in profile.getstats()), held


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
