"""What is timed is called; and no time is counted twice."""

import importlib

import pytest

from bench.share import FUNCTIONS, Stopwatch


@pytest.mark.parametrize(("module", "name"), [(module, name) for _, module, name in FUNCTIONS])
def test_every_function_that_is_timed_is_there(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)


def test_a_part_inside_another_is_the_others():
    watch = Stopwatch()
    inner = watch.timed("inner", lambda: sum(range(100_000)))
    watch.timed("outer", inner)()
    assert watch.seconds["outer"] > 0
    assert watch.calls == {"outer": 1}
    inner()
    assert watch.calls["inner"] == 1


def test_an_error_goes_through():
    watch = Stopwatch()

    def fail():
        raise LookupError

    with pytest.raises(LookupError):
        watch.timed("part", fail)()
    assert watch.calls["part"] == 1
