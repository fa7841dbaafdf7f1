"""What the gateway costs, beside a byte pass-through and other gateways in the same run.

    python -m bench.gateway [--rounds 5] [--only A,B] [--whole] [--peers]

First every scenario's answer is checked; a wrong one of the gateway's ends the run, and one of a
peer's is not measured. Then blocks of requests go to all servers in turn, round after round, and
the CPU time of each one's processes is taken from the kernel. At last they are started afresh and
hold idle streams.

Judge by ratios within one run: milliseconds wander with the machine.
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

# Long enough that ticks of 10 ms are a few per cent of the least that is measured.
BLOCK_SECONDS = 1.5
WARM_UP_REQUESTS = 30
WARM_UP_SECONDS = 2.0
# For blocks that take so long that nothing more is learnt from repeating them often.
LONG_SECONDS = 3.0
ROUNDS_OF_LONG = 3
IDLE_STREAMS = 200
# How many of the requests are in hand at the same moment is chance, and their bodies leave holes.
MEMORY_ROUNDS = 3
# For what the streams have set in motion to come to rest.
SETTLE_SECONDS = 1.5

Wrong = Mapping[str, Mapping[str, list[str]]]
"""By scenario and server: what is wrong with the answer."""
Plan = Sequence[tuple[Scenario, Sequence[Server]]]
Start = Callable[[Server], AbstractContextManager[Server]]


class WrongAnswer(Exception):
    """Answers are not what they should be, so their cost means nothing."""


def verify(server: Server, scenarios: Sequence[Scenario], load: Load) -> dict[str, list[str]]:
    """By scenario, what is wrong with a server's answer."""
    found = {
        scenario.letter: mistakes(server, scenario, load.bodies[scenario.letter])
        for scenario in scenarios
    }
    return {letter: wrong for letter, wrong in found.items() if wrong}


def require(server: Server, scenarios: Sequence[Scenario], load: Load) -> None:
    """Raises WrongAnswer."""
    wrong = verify(server, scenarios, load)
    if wrong:
        told = [f"{letter}: {mistake}" for letter, told in wrong.items() for mistake in told]
        raise WrongAnswer(f"{server.name} answers wrongly:\n  " + "\n  ".join(told))


def block_size(load: Load, server: Server, scenario: Scenario) -> int:
    """Warms a server up, and finds how many requests fit into the time of a block."""
    first = load.block(server, scenario, scenario.connections).timing
    if first.failed:
        raise WrongAnswer(f"{server.name} has failed {first.failed} requests of {scenario.letter}")
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
    """Blocks by scenario and server; servers take turns, in an order that turns round, too.

    After the moment `until` no round is begun but the first.
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
    """By name, how each server is started that stands before the upstream."""
    found: dict[str, Start] = {PASSTHROUGH_NAME: passthrough, GATEWAY_NAME: gateway}
    for peer in peers.installed() if with_peers else ():
        found[peer.name] = partial(peer.start, peer.folder)
    return found


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
    """What requests cost at every server."""
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
        # What the first event takes is compared with the upstream itself, in B.
        plan = [(scene, [upstream, *who] if scene.letter == "B" else who) for scene, who in plan]
        blocks = run_rounds(load, plan, rounds, until)
    results.rounds = max(len(series) for found in blocks.values() for series in found.values())
    for scenario in scenarios:
        letter = scenario.letter
        told = {name: found[letter] for name, found in wrong.items() if letter in found}
        results.rows.append(row_of(scenario, blocks[letter], told))
    if "B" in blocks:
        results.first_event_added = first_event_added(blocks["B"])
    rows = {row.letter: row for row in results.rows}
    if "B" in rows and "G" in rows:
        results.chunk = chunk_costs(rows["B"], rows["G"], chunks=197)


def idle_memory(load: Load, server: Server) -> Memory:
    load.block(server, SCENARIOS["G"], WARM_UP_REQUESTS)
    time.sleep(SETTLE_SECONDS)
    before = resident_kilobytes(server.pid)
    with load.held(server, IDLE, IDLE_STREAMS) as streams:
        if streams < IDLE_STREAMS:
            raise WrongAnswer(f"{server.name} has begun {streams} of {IDLE_STREAMS} streams")
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
    """What idle streams hold, in processes that have done little else."""
    for name, start in starts(with_peers=with_peers).items():
        own = name in (PASSTHROUGH_NAME, GATEWAY_NAME)
        series = results.memory.setdefault(name, [])
        for _ in range(MEMORY_ROUNDS if own else 1):
            with start(upstream) as server:
                try:
                    series.append(idle_memory(load, server))
                except WrongAnswer as error:
                    if own:
                        raise
                    print(error, file=sys.stderr)
        if not series:
            del results.memory[name]


@contextmanager
def stage(*, whole: bool = False) -> Iterator[tuple[Load, Server]]:
    """The load generator and the mock upstream."""
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
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--only", metavar="A,B", help="measure these scenarios alone")
    parser.add_argument(
        "--whole", action="store_true", help="in A, the upstream ignores that a stream is wanted"
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
    with stage(whole=options.whole) as (load, upstream):
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
