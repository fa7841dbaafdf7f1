"""What the gateway costs, beside a byte pass-through in the same run.

    python -m bench.gateway [--rounds 5] [--only A,B] [--whole]

First every scenario's answer is checked; a wrong one ends the run. Then blocks of requests go to
pass-through and gateway in turn, round after round, and the CPU time of each one's processes is
taken from the kernel. At last both are started afresh and hold idle streams.

Judge by ratios within one run: milliseconds wander with the machine.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import report
from bench.answers import mistakes
from bench.bodies import write_bodies
from bench.load import Block, Load
from bench.processes import resident_kilobytes, threads
from bench.programs import CompilerMissing, compile_programs
from bench.scenarios import IDLE, SCENARIOS, Scenario
from bench.servers import Server, ServerFailed, gateway, mock_upstream, passthrough

# Long enough that ticks of 10 ms are a few per cent of the least that is measured.
BLOCK_SECONDS = 1.5
WARM_UP_REQUESTS = 30
IDLE_STREAMS = 200
# How many of the requests are in hand at the same moment is chance, and their bodies leave holes.
MEMORY_ROUNDS = 3
# For what the streams have set in motion to come to rest.
SETTLE_SECONDS = 1.5


class WrongAnswer(Exception):
    """Answers are not what they should be, so their cost means nothing."""


def verify(server: Server, scenarios: Sequence[Scenario], load: Load) -> None:
    """Raises WrongAnswer."""
    wrong = [
        f"{scenario.letter}: {mistake}"
        for scenario in scenarios
        for mistake in mistakes(server, scenario, load.bodies[scenario.letter])
    ]
    if wrong:
        raise WrongAnswer("the gateway answers wrongly:\n  " + "\n  ".join(wrong))


def block_size(load: Load, server: Server, scenario: Scenario) -> int:
    """Warms a server up, and finds how many requests fit into the time of a block."""
    requests = scenario.connections if scenario.requests else WARM_UP_REQUESTS
    timing = load.block(server, scenario, requests).timing
    if timing.failed:
        raise WrongAnswer(f"{server.name} has failed {timing.failed} requests of {scenario.letter}")
    if scenario.requests:
        return scenario.requests
    seconds = load.block(server, scenario, requests).timing.seconds
    return max(requests, int(requests * BLOCK_SECONDS / seconds))


def run_rounds(
    load: Load, plan: Sequence[tuple[Scenario, Sequence[Server]]], rounds: int
) -> dict[str, dict[str, list[Block]]]:
    """Blocks by scenario and server; servers take turns, in an order that turns round, too."""
    sizes = {
        (scenario.letter, server.name): block_size(load, server, scenario)
        for scenario, servers in plan
        for server in servers
    }
    blocks: dict[str, dict[str, list[Block]]] = {
        scenario.letter: {server.name: [] for server in servers} for scenario, servers in plan
    }
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for scenario, servers in plan:
            for server in servers if number % 2 == 0 else servers[::-1]:
                size = sizes[scenario.letter, server.name]
                blocks[scenario.letter][server.name].append(load.block(server, scenario, size))
    return blocks


def report_costs(load: Load, upstream: Server, scenarios: Sequence[Scenario], rounds: int) -> int:
    """Prints what requests cost; returns how many have failed."""
    with passthrough(upstream) as limit, gateway(upstream) as measured:
        verify(measured, scenarios, load)
        # What the first event takes is compared with the upstream itself, in B.
        servers = (limit, measured)
        plan = [
            (scenario, (upstream, *servers) if scenario.letter == "B" else servers)
            for scenario in scenarios
        ]
        blocks = run_rounds(load, plan, rounds)
    print(report.costs([(scenario, blocks[scenario.letter]) for scenario in scenarios]), "\n")
    if "B" in blocks:
        print(report.first_event_added(blocks["B"]))
    if "B" in blocks and "G" in blocks:
        print(report.chunk_cost(blocks["B"], blocks["G"], chunks=197))
    return sum(
        block.timing.failed
        for by_server in blocks.values()
        for series in by_server.values()
        for block in series
    )


def idle_memory(load: Load, server: Server) -> report.Memory:
    load.block(server, SCENARIOS["G"], WARM_UP_REQUESTS)
    time.sleep(SETTLE_SECONDS)
    before = resident_kilobytes(server.pid)
    with load.held(server, IDLE, IDLE_STREAMS) as streams:
        if streams < IDLE_STREAMS:
            raise WrongAnswer(f"{server.name} has begun {streams} of {IDLE_STREAMS} streams")
        time.sleep(SETTLE_SECONDS)
        return report.Memory(
            server=server.name,
            streams=streams,
            before=before,
            held=resident_kilobytes(server.pid),
            threads=threads(server.pid),
        )


def report_memory(load: Load, upstream: Server) -> None:
    """Prints what idle streams hold, in processes that have done little else."""
    found: list[list[report.Memory]] = [[], []]
    for _ in range(MEMORY_ROUNDS):
        for series, start in zip(found, (passthrough, gateway), strict=True):
            with start(upstream) as server:
                series.append(idle_memory(load, server))
    print("\n" + report.memory(found))


def arguments() -> argparse.Namespace:
    titles = "\n".join(f"  {letter}  {entry.title}" for letter, entry in SCENARIOS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench.gateway",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"scenarios:\n{titles}\n  {IDLE}  {IDLE_STREAMS} idle streams: memory, threads",
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--only", metavar="A,B", help="measure these scenarios alone")
    parser.add_argument(
        "--whole", action="store_true", help="in A, the upstream ignores that a stream is wanted"
    )
    options = parser.parse_args()
    options.letters = options.only.split(",") if options.only else [*SCENARIOS, IDLE]
    if unknown := sorted(set(options.letters) - {*SCENARIOS, IDLE}):
        parser.error(f"no such scenario: {', '.join(unknown)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def run(options: argparse.Namespace) -> int:
    programs = compile_programs()
    scenarios = [entry for letter, entry in SCENARIOS.items() if letter in options.letters]
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="athena-bench-") as directory,
        mock_upstream(programs.mock_upstream, whole=options.whole) as upstream,
    ):
        load = Load(programs.loadgen, write_bodies(Path(directory)))
        print(report.heading(options.rounds), "\n", flush=True)
        if scenarios:
            failed = report_costs(load, upstream, scenarios, options.rounds)
        if IDLE in options.letters:
            report_memory(load, upstream)
    return 1 if failed else 0


def main() -> int:
    options = arguments()
    try:
        return run(options)
    except (CompilerMissing, ServerFailed, WrongAnswer) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
