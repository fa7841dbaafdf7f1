"""Copies the results of the last `make bench` into the documents.

    python -m bench.readme

The README gets one table of ratios, bench/README.md all results, docs/images/ the plots. It is a
command of its own so that a run on a busy machine changes nothing that is committed.
"""

import shutil
import sys

import msgspec

from bench import report
from bench.__main__ import NUMBERS, RESULTS
from bench.results import Results
from bench.servers import ROOT

README = ROOT / "README.md"
DETAILS = ROOT / "bench" / "README.md"
IMAGES = ROOT / "docs" / "images"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
PLOTS = {"growth.svg": "cost-growth.svg", "workers.svg": "cost-workers.svg"}


def details(results: Results) -> str:
    """Renders everything that was measured, for bench/README.md."""
    parts = [
        f"Measured on {report.heading(results)}.",
        report.headline(results),
        report.notes(results),
        report.shares(results),
        "![CPU and memory of a request as answers grow: CPU in proportion, memory flat]"
        f"(../docs/images/{PLOTS['growth.svg']})",
        f"![Requests per second by number of workers](../docs/images/{PLOTS['workers.svg']})",
    ]
    return "\n\n".join(part for part in parts if part)


def replaced(text: str, new: str) -> str:
    """Replaces the text between the marks; raises ValueError if they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the marks {BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n\n{new}\n\n{END}{after}"


def main() -> int:
    if not NUMBERS.exists():
        print("no results yet: run make bench", file=sys.stderr)
        return 1
    results = msgspec.json.decode(NUMBERS.read_bytes(), type=Results)
    if results.failed or results.troubles:
        print("the last run failed in part: run make bench again", file=sys.stderr)
        return 1
    README.write_text(replaced(README.read_text(), report.ratios(results)))
    DETAILS.write_text(replaced(DETAILS.read_text(), details(results)))
    for name, kept in PLOTS.items():
        shutil.copyfile(RESULTS / name, IMAGES / kept)
    print(f"README.md and bench/README.md have the numbers of {results.date}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
