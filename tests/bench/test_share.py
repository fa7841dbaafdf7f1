"""Timed functions exist, and no time is counted twice."""

import importlib

import pytest

from bench.share import FUNCTIONS, Stopwatch


@pytest.mark.parametrize(("module", "name"), [(module, name) for _, module, name in FUNCTIONS])
def test_every_timed_function_exists(module, name):
    function = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    assert callable(function)


def test_a_part_inside_another_counts_as_the_outer_one():
    watch = Stopwatch()
    inner = watch.timed("inner", lambda: sum(range(100_000)))
    watch.timed("outer", inner)()
    assert watch.seconds["outer"] > 0
    assert watch.calls == {"outer": 1}
    inner()
    assert watch.calls["inner"] == 1


def test_an_error_is_raised_and_still_timed():
    watch = Stopwatch()

    def fail():
        raise LookupError

    with pytest.raises(LookupError):
        watch.timed("part", fail)()
    assert watch.calls["part"] == 1
