"""Measures CPU time and memory by size of the answer, and throughput by number of workers."""

import os
from collections.abc import Sequence

from bench.gateway import WrongAnswer, require
from bench.load import Load
from bench.processes import peak_kilobytes, reset_peak, resident_kilobytes
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

# The lowest of these is taken: disturbances only add time.
REPEATS = 3
# Long enough for ticks of 10 ms; a request of the largest size takes this long.
SECONDS = 0.8
MAX_REQUESTS = 400
# Concurrent requests per worker.
CONNECTIONS = 16
THROUGHPUT_SECONDS = 2.5


def _size(load: Load, server: Server, scenario: Scenario, amount: int) -> Size:
    first = load.block(server, scenario, 1)
    if first.timing.failed:
        raise WrongAnswer(f"{server.name} failed a request with {scenario.title}")
    requests = max(1, min(MAX_REQUESTS, int(SECONDS / first.timing.seconds)))
    before = resident_kilobytes(server.pid)
    reset_peak(server.pid)
    cpu = min(load.block(server, scenario, requests).cpu for _ in range(REPEATS))
    return Size(amount, cpu, max(0, peak_kilobytes(server.pid) - before))


def measure_growth(load: Load, upstream: Server, results: Results) -> None:
    """Measure CPU time and memory of a request, from small to huge answers."""
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
    """1, 2, 4, … up to the number of cores."""
    powers = [2**n for n in range(10) if 2**n < cores]
    return [*powers, cores]


def measure_workers(load: Load, upstream: Server, results: Results) -> None:
    """Measure requests per second in B with concurrent requests, by number of workers."""
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
