"""Counts the work of a request without a clock: calls of Python functions, and calls into C.

    python -m bench.work                     compare with work.json; exit status 1 if work has grown
    python -m bench.work --record            write the counts to work.json
    python -m bench.work --only "…"          count cases by name; list the functions they call most
    python -m bench.work --only "…" --callgrind     count their instructions as well

Counts are equal on all machines within a few per mille, and within 2 % between Python 3.11, 3.12
and 3.13. Work inside a single call into C is not counted; callgrind counts it.

The check finds work that grew unnoticed. It must not decide against clearer code: a function more
on the way of a request is fine, so the margin is wide, and growth that is worth it is recorded.
"""

import argparse
import gc
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from bench import inside
from bench.callgrind import WARM_UP_TIMES, ValgrindMissing, instructions
from bench.cases import Work, cases

RECORDED = Path(__file__).parent / "work.json"
MARGIN = 1.25
MAX_GROWTH = 2.1
"""Calls for twice the input, divided by calls for the input; slightly above 2 to allow rounding."""
REPEATS = 5
"""The lowest count of these is taken: threads and timers of the gateway may add calls."""
GATEWAY_LETTERS = "ABCEFG"
# Python 3.12 and later run them inside the surrounding function.
_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})

SHOWN_FUNCTIONS = 25


class Calls:
    """Counts the function calls of a `with` block."""

    def __init__(self) -> None:
        self.total = 0

    def __enter__(self) -> "Calls":
        gc.disable()  # its work depends on what was allocated before
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" or (event == "call" and frame.f_code.co_name not in _INLINED):
            self.total += 1


class NamedCalls(Calls):
    """Counts calls by function as well."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: Counter[str] = Counter()

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        before = self.total
        super()._count(frame, event, argument)
        if self.total > before:
            code = frame.f_code
            name = argument.__qualname__ if event == "c_call" else code.co_qualname
            where = "C" if event == "c_call" else f"{Path(code.co_filename).name}"
            self.by_name[f"{name}  ({where})"] += 1


def count_case(work: Work, calls: type[Calls] = Calls) -> Calls:
    for _ in range(WARM_UP_TIMES):
        work()
    with calls() as counted:
        work()
    return counted


def count_gateway(letters: Sequence[str], calls: type[Calls] = Calls) -> dict[str, Calls]:
    """By scenario, the lowest count of several requests to the gateway in this process."""
    counts: dict[str, Calls] = {}

    async def main() -> None:
        async with inside.gateway() as ask:
            for letter in letters:
                await ask(letter)
                series = []
                for _ in range(REPEATS):
                    with calls() as counted:
                        await ask(letter)
                    series.append(counted)
                counts[_gateway_case(letter)] = min(series, key=lambda calls: calls.total)

    with inside.configured():
        inside.run(main)
    return counts


def _gateway_case(letter: str) -> str:
    return f"the gateway, scenario {letter}"


def measure() -> tuple[dict[str, int], list[str]]:
    """Calls by case, and the cases in which twice the input takes more than twice the calls."""
    counts, nonlinear = {}, []
    for case in cases():
        once, twice = (count_case(case.at_scale(scale)).total for scale in (1, 2))
        counts[case.name] = once
        if twice > MAX_GROWTH * once:
            nonlinear.append(f"{case.name}: {once} calls, but {twice} for twice the input")
    gateway = count_gateway(GATEWAY_LETTERS)
    return counts | {name: calls.total for name, calls in gateway.items()}, nonlinear


def grown(counts: Mapping[str, int], recorded: Mapping[str, int]) -> list[str]:
    """Cases above the margin, and cases that are only in one of counts and record."""
    lines = []
    for name, calls in counts.items():
        before = recorded.get(name)
        if before is None:
            lines.append(f"{name}: {calls} calls, not in {RECORDED.name}")
        elif calls > before * MARGIN:
            lines.append(_change(name, calls, before))
    removed = sorted(recorded.keys() - counts.keys())
    return lines + [f"{name}: in {RECORDED.name}, but there is no such case" for name in removed]


def shrunk(counts: Mapping[str, int], recorded: Mapping[str, int]) -> list[str]:
    """Cases that are so far below the record that it would not notice when they grow back."""
    return [
        _change(name, calls, recorded[name])
        for name, calls in counts.items()
        if name in recorded and calls * MARGIN < recorded[name]
    ]


def _change(name: str, calls: int, before: int) -> str:
    return f"{name}: {calls} calls, {calls / before - 1:+.0%} ({before} recorded)"


def advice(lines: Sequence[str]) -> str:
    """Tell what grew, how to find the cause, and what to do about it."""
    name = lines[0].partition(":")[0]
    return "\n  ".join(
        [
            f"Function calls of a request grew by more than {MARGIN - 1:.0%}:",
            *lines,
            "To see which functions are called, here and on the commit before:",
            f'  python -m bench.work --only "{name}"',
            "If the growth is an accident, remove it. If it is worth it (clearer code usually is),",
            f"record the new counts and commit {RECORDED.name} with the change:",
            "  python -m bench.work --record",
        ]
    )


def record() -> int:
    counts, nonlinear = measure()
    RECORDED.write_text(json.dumps(counts, indent=1) + "\n")
    print(f"{len(counts)} counts recorded in {RECORDED.name}")
    return _report_nonlinear(nonlinear)


def check() -> int:
    counts, nonlinear = measure()
    recorded: dict[str, int] = json.loads(RECORDED.read_text())
    print(f"{len(counts)} cases counted")
    if lines := shrunk(counts, recorded):
        print("Much less work than recorded. To keep it so: python -m bench.work --record")
        print("  " + "\n  ".join(lines))
    lines = grown(counts, recorded)
    if lines:
        print(advice(lines), file=sys.stderr)
    return _report_nonlinear(nonlinear) or (1 if lines else 0)


def _report_nonlinear(lines: Sequence[str]) -> int:
    if lines:
        title = "Work grows faster than the input. Look for a loop over all previous input:"
        print("\n  ".join([title, *lines]), file=sys.stderr)
    return 1 if lines else 0


def show(text: str, *, callgrind: bool) -> int:
    """Print the cases whose name contains a text, with the functions they call most."""
    counts = {
        case.name: count_case(case.at_scale(1), NamedCalls) for case in cases() if text in case.name
    }
    letters = [letter for letter in GATEWAY_LETTERS if text in _gateway_case(letter)]
    if letters:
        counts |= count_gateway(letters, NamedCalls)
    if not counts:
        print(f"No case has {text!r} in its name; {RECORDED.name} lists all.", file=sys.stderr)
        return 1
    for name, calls in counts.items():
        assert isinstance(calls, NamedCalls)
        print(f"{name}: {calls.total} calls")
        if callgrind and not name.startswith("the gateway"):
            print(f"  {instructions(name):,} instructions")
        for function, times in calls.by_name.most_common(SHOWN_FUNCTIONS):
            print(f"  {times:>7}  {function}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.work")
    parser.add_argument("--record", action="store_true", help="write the counts to work.json")
    parser.add_argument("--only", metavar="TEXT", help="cases by name, with what they call most")
    parser.add_argument("--callgrind", action="store_true", help="with --only: instructions, too")
    options = parser.parse_args()
    try:
        if options.only:
            return show(options.only, callgrind=options.callgrind)
    except ValgrindMissing as error:
        print(error, file=sys.stderr)
        return 1
    return record() if options.record else check()


if __name__ == "__main__":
    sys.exit(main())
