"""The whole benchmark: `make bench`, within ten minutes.

    python -m bench [--rounds 5] [--minutes 8] [--without-peers]

Prints the report and writes it to `bench/results/`, with its plots, and with its numbers as JSON
for `python -m bench.readme`.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench import peers, report
from bench.gateway import WrongAnswer, load_and_upstream, measure_costs, measure_memory
from bench.growth import measure_growth, measure_workers
from bench.programs import CompilerMissing
from bench.results import Results, begin
from bench.scenarios import SCENARIOS
from bench.servers import ServerFailed
from bench.share import measure_audit, parts_of_a_request

RESULTS = Path(__file__).parent / "results"
NUMBERS = RESULTS / "numbers.json"
# The share of `--minutes` for rounds; memory, growth, workers and audit take the rest.
_ROUNDS_SHARE = 0.5


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def measure(results: Results, options: argparse.Namespace) -> None:
    began, with_peers = time.monotonic(), not options.without_peers
    if with_peers:
        results.versions |= {peer.name: peer.installed or "" for peer in peers.installed()}
        results.missing = peers.missing()
    until = began + options.minutes * 60 * _ROUNDS_SHARE
    with load_and_upstream() as (load, upstream):
        phases: dict[str, Callable[[], None]] = {
            "scenarios": lambda: measure_costs(
                load,
                upstream,
                list(SCENARIOS.values()),
                results,
                rounds=options.rounds,
                with_peers=with_peers,
                until=until,
            ),
            "memory": lambda: measure_memory(load, upstream, results, with_peers=with_peers),
            "growth": lambda: measure_growth(load, upstream, results),
            "workers": lambda: measure_workers(load, upstream, results),
            "transcripts": lambda: measure_audit(load, upstream, results),
            "parts": lambda: results.parts.update(parts_of_a_request()),
        }
        for name, phase in phases.items():
            log(name)
            try:
                phase()
            except (ServerFailed, WrongAnswer) as error:
                # The results of the other phases are still useful.
                results.troubles.append(f"{name}: {error}")
                print(error, file=sys.stderr)
    results.seconds = time.monotonic() - began


def write(results: Results) -> Path:
    RESULTS.mkdir(exist_ok=True)
    NUMBERS.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    plots = {}
    if results.growing_chunks and results.growing_bytes:
        plots["growth.svg"] = report.growth_plot(results)
    if results.workers:
        plots["workers.svg"] = report.workers_plot(results)
    for name, drawing in plots.items():
        (RESULTS / name).write_text(drawing)
    path = RESULTS / "report.md"
    path.write_text(report.page(results, list(plots)))
    return path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--rounds", type=int, default=5, help="maximum number of rounds")
    parser.add_argument("--minutes", type=float, default=8, help="approximate duration")
    parser.add_argument(
        "--without-peers", action="store_true", help="do not measure other gateways"
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def main() -> int:
    options, results = arguments(), begin()
    try:
        measure(results, options)
    except (CompilerMissing, ServerFailed) as error:
        print(error, file=sys.stderr)
        return 1
    path = write(results)
    print(path.read_text())
    log(f"written to {path.relative_to(Path.cwd())}" if path.is_relative_to(Path.cwd()) else "")
    return 1 if results.failed or results.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
