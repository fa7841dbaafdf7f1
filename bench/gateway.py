"""Measures the gateway, a byte pass-through and other gateways in the same run.

    python -m bench.gateway [--rounds 5] [--only A,B] [--whole] [--peers]

First the answers to all scenarios are checked: a wrong answer of the gateway ends the run, a wrong
answer of a peer excludes it from the scenario. Then blocks of requests go to all servers in turn,
round after round, and the kernel's CPU time of their processes is read. Finally new processes are
started to measure the memory of idle streams.

Compare ratios within one run: milliseconds vary with the machine.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench import peers, report
from bench.answers import mistakes
from bench.bodies import write_bodies
from bench.load import Block, Load
from bench.processes import resident_kilobytes, threads
from bench.programs import CompilerMissing, compile_programs
from bench.results import Memory, Results, begin, chunk_costs, first_event_added, row_of
from bench.scenarios import IDLE, SCENARIOS, Scenario
from bench.servers import (
    GATEWAY_NAME,
    PASSTHROUGH_NAME,
    Server,
    ServerFailed,
    gateway,
    mock_upstream,
    passthrough,
)

# Long enough that a tick of 10 ms is a few per cent at most.
BLOCK_SECONDS = 1.5
WARM_UP_REQUESTS = 30
WARM_UP_SECONDS = 2.0
# Blocks that take longer than this are measured three times at most.
LONG_SECONDS = 3.0
ROUNDS_OF_LONG = 3
IDLE_STREAMS = 200
# Memory varies with the number of requests in progress and with fragmentation.
MEMORY_ROUNDS = 3
# Time for the server to become idle.
SETTLE_SECONDS = 1.5

Wrong = Mapping[str, Mapping[str, list[str]]]
"""Mistakes in the answers, by scenario and server."""
Plan = Sequence[tuple[Scenario, Sequence[Server]]]
Start = Callable[[Server], AbstractContextManager[Server]]


class WrongAnswer(Exception):
    """Answers are wrong, so their cost means nothing."""


def verify(server: Server, scenarios: Sequence[Scenario], load: Load) -> dict[str, list[str]]:
    """Mistakes in a server's answers, by scenario."""
    wrong = {
        scenario.letter: mistakes(server, scenario, load.bodies[scenario.letter])
        for scenario in scenarios
    }
    return {letter: lines for letter, lines in wrong.items() if lines}


def require(server: Server, scenarios: Sequence[Scenario], load: Load) -> None:
    """Raises WrongAnswer if an answer of the server is wrong."""
    wrong = verify(server, scenarios, load)
    if wrong:
        lines = [f"{letter}: {line}" for letter, lines in wrong.items() for line in lines]
        raise WrongAnswer(f"{server.name} gives wrong answers:\n  " + "\n  ".join(lines))


def block_size(load: Load, server: Server, scenario: Scenario) -> int:
    """Warm a server up; returns the number of requests that fit into a block."""
    first = load.block(server, scenario, scenario.connections).timing
    if first.failed:
        raise WrongAnswer(f"{server.name} failed {first.failed} requests of {scenario.letter}")
    if scenario.requests:
        return scenario.requests
    requests = max(1, min(WARM_UP_REQUESTS, int(WARM_UP_SECONDS / first.seconds)))
    if first.seconds > BLOCK_SECONDS:
        return 1
    seconds = load.block(server, scenario, requests).timing.seconds
    return max(1, int(requests * BLOCK_SECONDS / seconds))


def run_rounds(
    load: Load, plan: Plan, rounds: int, until: float | None = None
) -> dict[str, dict[str, list[Block]]]:
    """Measure blocks by scenario and server; the servers alternate, in alternating order.

    After the time `until`, no further round is started, except for the first.
    """
    sizes = {
        (scenario.letter, server.name): block_size(load, server, scenario)
        for scenario, servers in plan
        for server in servers
    }
    blocks: dict[str, dict[str, list[Block]]] = {
        scenario.letter: {server.name: [] for server in servers} for scenario, servers in plan
    }
    for number in range(rounds):
        if until and number and time.monotonic() > until:
            break
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for scenario, servers in plan:
            for server in servers if number % 2 == 0 else servers[::-1]:
                series = blocks[scenario.letter][server.name]
                is_long = bool(series) and series[0].timing.seconds > LONG_SECONDS
                if not is_long or number < ROUNDS_OF_LONG:
                    size = sizes[scenario.letter, server.name]
                    series.append(load.block(server, scenario, size))
    return blocks


def starts(*, with_peers: bool) -> dict[str, Start]:
    """Functions that start the servers, by name."""
    servers: dict[str, Start] = {PASSTHROUGH_NAME: passthrough, GATEWAY_NAME: gateway}
    for peer in peers.installed() if with_peers else ():
        servers[peer.name] = partial(peer.start, peer.folder)
    return servers


def measure_costs(
    load: Load,
    upstream: Server,
    scenarios: Sequence[Scenario],
    results: Results,
    *,
    rounds: int,
    with_peers: bool = False,
    until: float | None = None,
) -> None:
    """Measure the cost of requests at every server."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(start(upstream)) for start in starts(with_peers=with_peers).values()
        ]
        require(servers[1], scenarios, load)
        wrong = {server.name: verify(server, scenarios, load) for server in servers[2:]}
        plan = [
            (scenario, [s for s in servers if scenario.letter not in wrong.get(s.name, {})])
            for scenario in scenarios
        ]
        # In B, the upstream is measured as well, for the time to its first event.
        plan = [(s, [upstream, *measured] if s.letter == "B" else measured) for s, measured in plan]
        blocks = run_rounds(load, plan, rounds, until)
    results.rounds = max(
        len(series) for by_server in blocks.values() for series in by_server.values()
    )
    for scenario in scenarios:
        letter = scenario.letter
        wrong_here = {name: lines[letter] for name, lines in wrong.items() if letter in lines}
        results.rows.append(row_of(scenario, blocks[letter], wrong_here))
    if "B" in blocks:
        results.first_event_added = first_event_added(blocks["B"])
    rows = {row.letter: row for row in results.rows}
    if "B" in rows and "G" in rows:
        results.chunk = chunk_costs(rows["B"], rows["G"], chunks=197)


def idle_memory(load: Load, server: Server) -> Memory:
    load.block(server, SCENARIOS["G"], WARM_UP_REQUESTS)
    time.sleep(SETTLE_SECONDS)
    before = resident_kilobytes(server.pid)
    with load.open_streams(server, IDLE, IDLE_STREAMS) as streams:
        if streams < IDLE_STREAMS:
            raise WrongAnswer(f"{server.name} started {streams} of {IDLE_STREAMS} streams")
        time.sleep(SETTLE_SECONDS)
        return Memory(
            streams=streams,
            before=before,
            held=resident_kilobytes(server.pid),
            threads=threads(server.pid),
        )


def measure_memory(
    load: Load, upstream: Server, results: Results, *, with_peers: bool = False
) -> None:
    """Measure the memory of idle streams in new processes."""
    for name, start in starts(with_peers=with_peers).items():
        is_ours = name in (PASSTHROUGH_NAME, GATEWAY_NAME)
        series = results.memory.setdefault(name, [])
        for _ in range(MEMORY_ROUNDS if is_ours else 1):
            with start(upstream) as server:
                try:
                    series.append(idle_memory(load, server))
                except WrongAnswer as error:
                    if is_ours:
                        raise
                    print(error, file=sys.stderr)
        if not series:
            del results.memory[name]


@contextmanager
def load_and_upstream(*, whole: bool = False) -> Iterator[tuple[Load, Server]]:
    """Start the load generator and the mock upstream."""
    programs = compile_programs()
    with (
        tempfile.TemporaryDirectory(prefix="athena-bench-") as directory,
        mock_upstream(programs.mock_upstream, whole=whole) as upstream,
    ):
        yield Load(programs.loadgen, write_bodies(Path(directory))), upstream


def arguments() -> argparse.Namespace:
    titles = "\n".join(f"  {letter}  {entry.title}" for letter, entry in SCENARIOS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench.gateway",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"scenarios:\n{titles}\n  {IDLE}  {IDLE_STREAMS} idle streams: memory, threads",
    )
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    parser.add_argument("--only", metavar="A,B", help="measure only these scenarios")
    parser.add_argument(
        "--whole",
        action="store_true",
        help="in A, the upstream ignores `stream` and sends one JSON object",
    )
    parser.add_argument("--peers", action="store_true", help="measure installed peers, too")
    options = parser.parse_args()
    options.letters = options.only.split(",") if options.only else [*SCENARIOS, IDLE]
    if unknown := sorted(set(options.letters) - {*SCENARIOS, IDLE}):
        parser.error(f"no such scenario: {', '.join(unknown)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def run(options: argparse.Namespace) -> int:
    scenarios = [entry for letter, entry in SCENARIOS.items() if letter in options.letters]
    results = begin()
    with load_and_upstream(whole=options.whole) as (load, upstream):
        if scenarios:
            measure_costs(
                load,
                upstream,
                scenarios,
                results,
                rounds=options.rounds,
                with_peers=options.peers,
            )
        if IDLE in options.letters:
            measure_memory(load, upstream, results, with_peers=options.peers)
    print(report.heading(results), "\n")
    print(report.details(results))
    return 1 if results.failed else 0


def main() -> int:
    options = arguments()
    try:
        return run(options)
    except (CompilerMissing, ServerFailed, WrongAnswer) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
