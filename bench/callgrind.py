"""Instructions of a counted case, by callgrind: what happens inside calls into C is in them, too.

They are the same at every run of one machine, but take fifty times as long as the work itself, and
differ between builds of Python: a tool for looking closer, not for a check.
"""

import shutil
import subprocess
import sys

from bench.cases import cases
from bench.servers import ROOT

TIMES = 10
FIRST = 2
"""Times until all is cached that a case can cache: some is kept when it comes again."""


class ValgrindMissing(Exception):
    """There is no valgrind to count with."""


def repeat(name: str, times: int) -> None:
    """Do the work of a case so often."""
    work = next(case for case in cases() if case.name == name).at_scale(1)
    for _ in range(times):
        work()


def instructions(name: str) -> int:
    """Of a case: those of a process that does it often, less those of one that only begins."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise ValgrindMissing("valgrind is not installed: apt-get install valgrind")
    _run([], name, 1)  # compiles the modules
    often = _collected(valgrind, name, FIRST + TIMES)
    return (often - _collected(valgrind, name, FIRST)) // TIMES


def _collected(valgrind: str, name: str, times: int) -> int:
    told = _run([valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"], name, times)
    return int(told.rpartition("Collected :")[2].split()[0])


def _run(wrapper: list[str], name: str, times: int) -> str:
    program = f"from bench.callgrind import repeat; repeat({name!r}, {times})"
    done = subprocess.run(
        [*wrapper, sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "0"},
        check=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    return done.stderr
