"""The newest table into the README, and its plots into `docs/images/`.

    python -m bench.readme

Takes what `make bench` has written last. Apart from it, so that a run on a busy machine changes
nothing that is committed.
"""

import shutil
import sys

import msgspec

from bench import report
from bench.__main__ import NUMBERS, RESULTS
from bench.results import Results
from bench.servers import ROOT

README = ROOT / "README.md"
IMAGES = ROOT / "docs" / "images"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
PLOTS = {"growth.svg": "cost-growth.svg", "workers.svg": "cost-workers.svg"}


def block(results: Results) -> str:
    """What stands between the marks."""
    pictures = [
        "![CPU and memory of a request as answers grow: straight lines, and flat ones]"
        f"({(IMAGES / PLOTS['growth.svg']).relative_to(ROOT)})",
        f"![Requests a second by workers]({(IMAGES / PLOTS['workers.svg']).relative_to(ROOT)})",
    ]
    parts = [
        f"Measured on {report.heading(results)}.",
        report.headline(results),
        report.notes(results),
        report.shares(results),
        *pictures,
    ]
    return "\n\n".join(part for part in parts if part)


def replaced(text: str, new: str) -> str:
    """A text with something else between its marks; raises ValueError if it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the marks {BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n\n{new}\n\n{END}{behind}"


def main() -> int:
    if not NUMBERS.exists():
        print("nothing was measured yet: make bench", file=sys.stderr)
        return 1
    results = msgspec.json.decode(NUMBERS.read_bytes(), type=Results)
    if results.failed or results.troubles:
        print("the last run has failed in part: make bench again", file=sys.stderr)
        return 1
    README.write_text(replaced(README.read_text(), block(results)))
    for name, kept in PLOTS.items():
        shutil.copyfile(RESULTS / name, IMAGES / kept)
    print(f"{README.name} has the numbers of {results.date}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
