"""Counts the instructions of a case with callgrind, including those inside calls into C.

Counts are equal in every run on one machine, but take fifty times as long as the work itself, and
differ between builds of Python. That makes them a tool for a closer look, not for a check.
"""

import shutil
import subprocess
import sys

from bench.cases import cases
from bench.servers import ROOT

TIMES = 10
WARM_UP_TIMES = 2
"""Runs of a case before counting: some caches keep a value only when it comes a second time."""


class ValgrindMissing(Exception):
    """Valgrind is not installed."""


def repeat(name: str, times: int) -> None:
    work = next(case for case in cases() if case.name == name).at_scale(1)
    for _ in range(times):
        work()


def instructions(name: str) -> int:
    """Instructions of one run of a case: many runs in a process, minus one that only warms up."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise ValgrindMissing("valgrind is not installed: apt-get install valgrind")
    _run([], name, 1)  # compiles the modules
    total = _collected(valgrind, name, WARM_UP_TIMES + TIMES)
    return (total - _collected(valgrind, name, WARM_UP_TIMES)) // TIMES


def _collected(valgrind: str, name: str, times: int) -> int:
    output = _run([valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"], name, times)
    return int(output.rpartition("Collected :")[2].split()[0])


def _run(wrapper: list[str], name: str, times: int) -> str:
    program = f"from bench.callgrind import repeat; repeat({name!r}, {times})"
    completed = subprocess.run(
        [*wrapper, sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "0"},
        check=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    return completed.stderr
