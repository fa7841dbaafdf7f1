"""Results of a run; written as JSON, and read again for the README.

Values are medians over the rounds. A ratio is the median of the ratios of all rounds, not the ratio
of medians, so that slow minutes of a shared machine do not affect it.
"""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import msgspec

from bench.load import Block
from bench.scenarios import Scenario
from bench.servers import PASSTHROUGH_NAME

Blocks = Mapping[str, Sequence[Block]]
"""Blocks by name of the server, one per round."""


class Cost(msgspec.Struct, frozen=True):
    """Cost of one scenario at one server; times in milliseconds."""

    cpu: float
    """CPU time of the server's processes per request."""
    ratio: float
    """CPU time divided by that of the pass-through."""
    lowest: float
    highest: float
    requests_per_second: float
    p50: float
    p99: float
    first_event: float
    failed: int


class Row(msgspec.Struct, frozen=True):
    """One scenario."""

    letter: str
    title: str
    streamed: bool
    costs: dict[str, Cost]
    """By server."""
    wrong: dict[str, list[str]] = {}
    """Mistakes by server, for servers that were not measured because of them."""


class Memory(msgspec.Struct, frozen=True):
    """One server with idle streams; kilobytes of resident memory."""

    streams: int
    before: int
    held: int
    threads: int

    @property
    def per_stream(self) -> float:
        return (self.held - self.before) / self.streams


class Size(msgspec.Struct, frozen=True):
    """Cost of an answer of one size."""

    amount: int
    cpu: float
    """Milliseconds."""
    peak: int
    """Peak of resident memory above the value before, in kilobytes."""


class Throughput(msgspec.Struct, frozen=True):
    workers: int
    requests_per_second: float
    cpu: float


class Share(msgspec.Struct, frozen=True):
    """The share that something adds to the CPU time."""

    median: float
    lowest: float
    highest: float


class Results(msgspec.Struct, kw_only=True):
    date: str
    machine: str
    versions: dict[str, str]
    rounds: int = 0
    rows: list[Row] = []
    first_event_added: dict[str, float] = {}
    """Milliseconds to the first event in B, minus those of the upstream, by server."""
    chunk: dict[str, float] = {}
    """Microseconds per chunk, by server."""
    memory: dict[str, list[Memory]] = {}
    growing_chunks: list[Size] = []
    growing_bytes: list[Size] = []
    workers: list[Throughput] = []
    audit: Share | None = None
    """The share that keeping every transcript adds to the CPU time of B."""
    parts: dict[str, float] = {}
    """Milliseconds of a request for keys, routing and audit."""
    missing: list[str] = []
    """Peers that are not installed, and how to install them."""
    troubles: list[str] = []
    """Measurements that failed, and why."""
    seconds: float = 0

    @property
    def failed(self) -> int:
        return sum(cost.failed for row in self.rows for cost in row.costs.values())


def begin() -> Results:
    names = ("django", "uvicorn", "uvloop", "httptools", "msgspec")
    versions = {"Python": platform.python_version()} | {name: version(name) for name in names}
    return Results(
        date=datetime.now(UTC).strftime("%Y-%m-%d"), machine=_machine(), versions=versions
    )


def _machine() -> str:
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    kernel = platform.release().partition("-")[0]
    return f"{os.cpu_count()} cores ({model}), Linux {kernel}"


def cost_of(blocks: Sequence[Block], reference: Sequence[Block]) -> Cost:
    # A slow server has fewer rounds.
    pairs = zip(blocks, reference, strict=False)
    ratios = [block.cpu / other.cpu for block, other in pairs if other.cpu] or [0.0]
    timings = [block.timing for block in blocks]
    return Cost(
        cpu=median(block.cpu for block in blocks),
        ratio=median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        requests_per_second=median(timing.requests_per_second for timing in timings),
        p50=median(timing.p50 for timing in timings),
        p99=median(timing.p99 for timing in timings),
        first_event=median(timing.first_event_p50 for timing in timings),
        failed=sum(timing.failed for timing in timings),
    )


def row_of(scenario: Scenario, blocks: Blocks, wrong: Mapping[str, list[str]]) -> Row:
    costs = {
        server: cost_of(series, blocks[PASSTHROUGH_NAME])
        for server, series in blocks.items()
        if server != "direct"
    }
    return Row(scenario.letter, scenario.title, scenario.streamed, costs, dict(wrong))


def first_event_added(blocks: Blocks) -> dict[str, float]:
    return {
        server: median(
            block.timing.first_event_p50 - direct.timing.first_event_p50
            for block, direct in zip(series, blocks["direct"], strict=False)
        )
        for server, series in blocks.items()
        if server != "direct"
    }


def chunk_costs(many: Row, few: Row, *, chunks: int) -> dict[str, float]:
    """Cost of a chunk, from two scenarios that differ by `chunks` chunks."""
    return {
        server: (many.costs[server].cpu - few.costs[server].cpu) / chunks * 1000
        for server in many.costs
        if server in few.costs
    }
