"""Every fault in docs/faults.md and every promise in docs/promises.md names a test that exists."""

import re
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMES = list(
    chain.from_iterable(
        (f"{letter}{number}" for number in range(1, count + 1))
        for letter, count in {"U": 38, "C": 39, "O": 12, "S": 13, "P": 13, "X": 23}.items()
    )
)
ROW = re.compile(r"^\| ([UCOSPXWNT]\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
rows = ROW.findall((ROOT / "docs" / "faults.md").read_text())


def test_every_fault_is_listed_once():
    names = [name for name, *_ in rows]
    assert [name for name in names if name[0] not in "WNT"] == NAMES
    assert len({*names}) == len(names)


def test_every_fault_has_a_test_that_exists_or_says_why_not():
    for name, _, happens, proof in rows:
        assert "…" not in (happens.strip(), proof.strip()), name
        tests = TEST.findall(proof)
        assert tests or proof.startswith("does not apply: "), name
        for path, test in tests:
            assert exists(path, test), f"{name}: {path}::{test}"


def test_every_promise_has_a_test_that_exists():
    page = (ROOT / "docs" / "promises.md").read_text()
    promises = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(promises) >= 8
    for promise in promises:
        tests = TEST.findall(promise)
        assert tests or "`make bench`" in promise, promise
        for path, test in tests:
            assert exists(path, test), f"{path}::{test}"


def exists(path, test):
    return re.search(rf"def {test}\(", (ROOT / path).read_text())
