"""Counts the work of a request, without a clock: function calls of Python, and into C.

    python -m bench.work                     compare with work.json; status 1 if work has grown
    python -m bench.work --record            write down what is counted now
    python -m bench.work --only "…"          cases by name, and the functions that they call most
    python -m bench.work --only "…" --callgrind     the instructions of each, too

Counts are the same on every machine, but for a few in a thousand, and within two per cent the same
in Python 3.11 to 3.13. What happens inside one call into C is not seen: callgrind sees that.
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
from bench.callgrind import FIRST, ValgrindMissing, instructions
from bench.cases import Work, cases

RECORDED = Path(__file__).parent / "work.json"
MARGIN = 1.10
LINEAR = 2.1
"""Of twice the input: a little above two, for what is rounded up."""
REPEATS = 5
"""Of which the least counts: the gateway's threads and timers may get between."""
GATEWAY_LETTERS = "ABCEFG"
# Python 3.12 and later have them inside the function around them.
_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})

SHOWN = 25
"""Functions of a case, those that are called most."""


class Calls:
    """How many functions are called in a block."""

    def __init__(self) -> None:
        self.total = 0

    def __enter__(self) -> "Calls":
        gc.disable()  # what it does depends on what was there before
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" or (event == "call" and frame.f_code.co_name not in _INLINED):
            self.total += 1


class NamedCalls(Calls):
    """The same, with the functions' names."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: Counter[str] = Counter()

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        before = self.total
        super()._note(frame, event, argument)
        if self.total > before:
            code = frame.f_code
            name = argument.__qualname__ if event == "c_call" else code.co_qualname
            where = "C" if event == "c_call" else f"{Path(code.co_filename).name}"
            self.by_name[f"{name}  ({where})"] += 1


def calls_of(work: Work, calls: type[Calls] = Calls) -> Calls:
    for _ in range(FIRST):
        work()
    with calls() as counted:
        work()
    return counted


def gateway_calls(letters: Sequence[str], calls: type[Calls] = Calls) -> dict[str, Calls]:
    """By scenario, the least of several requests to the gateway in this process."""
    found: dict[str, Calls] = {}

    async def main() -> None:
        async with inside.gateway() as ask:
            for letter in letters:
                await ask(letter)
                series = []
                for _ in range(REPEATS):
                    with calls() as counted:
                        await ask(letter)
                    series.append(counted)
                found[_gateway_name(letter)] = min(series, key=lambda calls: calls.total)

    with inside.configured():
        inside.run(main)
    return found


def _gateway_name(letter: str) -> str:
    return f"the gateway, scenario {letter}"


def measure() -> tuple[dict[str, int], list[str]]:
    """Calls by case, and in which cases twice the input takes more than twice of them."""
    counts, bent = {}, []
    for case in cases():
        once, twice = (calls_of(case.at_scale(scale)).total for scale in (1, 2))
        counts[case.name] = once
        if twice > LINEAR * once:
            bent.append(f"{case.name}: {once} calls, and {twice} for twice the input")
    gateway = gateway_calls(GATEWAY_LETTERS)
    return counts | {name: calls.total for name, calls in gateway.items()}, bent


def grown(counts: Mapping[str, int], recorded: Mapping[str, int]) -> list[str]:
    """What takes more work than is recorded, or is not what is recorded."""
    found = []
    for name, calls in counts.items():
        before = recorded.get(name)
        if before is None:
            found.append(f"{name}: {calls} calls, and nothing is recorded")
        elif calls > before * MARGIN:
            found.append(f"{name}: {calls} calls, {calls / before - 1:+.0%} of {before}")
    gone = sorted(recorded.keys() - counts.keys())
    return found + [f"{name}: recorded, but there is no such case" for name in gone]


def shrunk(counts: Mapping[str, int], recorded: Mapping[str, int]) -> list[str]:
    """What takes so much less that it may be recorded, lest the gain is lost again."""
    return [
        f"{name}: {calls} calls, {calls / recorded[name] - 1:+.0%} of {recorded[name]}"
        for name, calls in counts.items()
        if name in recorded and calls * MARGIN < recorded[name]
    ]


def record() -> int:
    counts, bent = measure()
    RECORDED.write_text(json.dumps(counts, indent=1) + "\n")
    print(f"{len(counts)} counts are recorded in {RECORDED.name}")
    return _say("not in proportion to the input", bent)


def check() -> int:
    counts, bent = measure()
    recorded: dict[str, int] = json.loads(RECORDED.read_text())
    print(f"{len(counts)} cases counted")
    if less := shrunk(counts, recorded):
        print("much less work than recorded; `python -m bench.work --record` keeps it so:")
        print("  " + "\n  ".join(less))
    status = _say("more work than recorded", grown(counts, recorded))
    if status:
        print("if it is worth that: python -m bench.work --record", file=sys.stderr)
    return _say("not in proportion to the input", bent) or status


def _say(what: str, found: Sequence[str]) -> int:
    if found:
        print(f"{what}:\n  " + "\n  ".join(found), file=sys.stderr)
    return 1 if found else 0


def show(text: str, *, callgrind: bool) -> int:
    """The cases whose names contain a text, and what they call."""
    found = {
        case.name: calls_of(case.at_scale(1), NamedCalls) for case in cases() if text in case.name
    }
    letters = [letter for letter in GATEWAY_LETTERS if text in _gateway_name(letter)]
    if letters:
        found |= gateway_calls(letters, NamedCalls)
    if not found:
        print(f"no case is named like {text!r}", file=sys.stderr)
        return 1
    for name, calls in found.items():
        assert isinstance(calls, NamedCalls)
        print(f"{name}: {calls.total} calls")
        if callgrind and not name.startswith("the gateway"):
            print(f"  {instructions(name):,} instructions")
        for function, times in calls.by_name.most_common(SHOWN):
            print(f"  {times:>7}  {function}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.work")
    parser.add_argument("--record", action="store_true", help="write down what is counted now")
    parser.add_argument("--only", metavar="TEXT", help="cases by name, with what they call most")
    parser.add_argument("--callgrind", action="store_true", help="with --only: instructions, too")
    options = parser.parse_args()
    try:
        if options.only:
            return show(options.only, callgrind=options.callgrind)
    except ValgrindMissing as error:
        return _say("no instructions", [str(error)])
    return record() if options.record else check()


if __name__ == "__main__":
    sys.exit(main())
