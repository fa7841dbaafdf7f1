"""Whether work grows with the answer, and memory does not; and throughput with the workers."""

import os
from collections.abc import Sequence

from bench.gateway import WrongAnswer, require
from bench.load import Load
from bench.processes import forget_peak, peak_kilobytes, resident_kilobytes
from bench.results import Results, Size, Throughput
from bench.scenarios import (
    GROWING,
    GROWING_BYTES,
    GROWING_CHUNKS,
    SCENARIOS,
    Scenario,
    growing_arguments,
    growing_text,
)
from bench.servers import Server, gateway

# Of which the least counts: what disturbs only adds.
REPEATS = 3
# Long enough for ticks of 10 ms; one request of the largest takes as long.
SECONDS = 0.8
MOST_REQUESTS = 400
# At once, for each worker.
CONNECTIONS = 16
THROUGHPUT_SECONDS = 2.5


def _size(load: Load, server: Server, scenario: Scenario, amount: int) -> Size:
    first = load.block(server, scenario, 1)
    if first.timing.failed:
        raise WrongAnswer(f"{server.name} has failed {scenario.title}")
    requests = max(1, min(MOST_REQUESTS, int(SECONDS / first.timing.seconds)))
    before = resident_kilobytes(server.pid)
    forget_peak(server.pid)
    cpu = min(load.block(server, scenario, requests).cpu for _ in range(REPEATS))
    return Size(amount, cpu, max(0, peak_kilobytes(server.pid) - before))


def measure_growth(load: Load, upstream: Server, results: Results) -> None:
    """CPU time and memory of one request, from small answers to huge ones."""
    with gateway(upstream) as server:
        require(server, GROWING, load)
        load.block(server, SCENARIOS["B"], 100)
        results.growing_chunks = [
            _size(load, server, growing_text(chunks), chunks) for chunks in GROWING_CHUNKS
        ]
        results.growing_bytes = [
            _size(load, server, growing_arguments(size), size) for size in GROWING_BYTES
        ]


def worker_counts(cores: int) -> Sequence[int]:
    """One, two, four and so on, and as many as there are cores."""
    powers = [2**n for n in range(10) if 2**n < cores]
    return [*powers, cores]


def measure_workers(load: Load, upstream: Server, results: Results) -> None:
    """Requests a second with more and more workers, in B, many at once."""
    scenario = SCENARIOS["B"]
    for workers in worker_counts(os.cpu_count() or 1):
        connections = CONNECTIONS * workers
        with gateway(upstream, workers=workers) as server:
            trial = load.block(server, scenario, 10 * connections, connections=connections)
            requests = int(trial.timing.requests_per_second * THROUGHPUT_SECONDS)
            blocks = [
                load.block(server, scenario, max(connections, requests), connections=connections)
                for _ in range(REPEATS)
            ]
        best = max(blocks, key=lambda block: block.timing.requests_per_second)
        results.workers.append(Throughput(workers, best.timing.requests_per_second, best.cpu))
