"""What was measured, as text: a table of costs, what it means by chunk, and memory.

Medians over the rounds. A ratio is the median of the ratios of each round, not the ratio of the
medians, so that the slow minutes of a shared machine fall out of it.
"""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median

from bench.load import Block
from bench.scenarios import Scenario

Blocks = Mapping[str, Sequence[Block]]
"""By the server's name, a block for each round."""

HEADINGS = ("CPU ms", "ratio", "lowest–highest", "req/s", "p50 ms", "p99 ms", "TTFE ms", "failed")
WIDTHS = (9, 9, 16, 9, 9, 9, 9, 8)


@dataclass(frozen=True, slots=True)
class Memory:
    """One server with idle streams; kilobytes of resident memory."""

    server: str
    streams: int
    before: int
    held: int
    threads: int

    @property
    def per_stream(self) -> float:
        return (self.held - self.before) / self.streams


def heading(rounds: int) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("django", "uvicorn", "uvloop"))
    return (
        f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores; "
        f"interleaved rounds: {rounds}"
    )


def _line(title: str, server: str, cells: Sequence[str]) -> str:
    aligned = (f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
    return f"{title:<40}{server:<13}" + "".join(aligned)


def _cells(blocks: Sequence[Block], reference: Sequence[Block], *, streamed: bool) -> list[str]:
    ratios = [
        block.cpu / other.cpu for block, other in zip(blocks, reference, strict=True) if other.cpu
    ]
    timings = [block.timing for block in blocks]
    first_event = median(timing.first_event_p50 for timing in timings)
    return [
        f"{median(block.cpu for block in blocks):.3f}",
        f"{median(ratios):.2f}" if ratios else "–",
        f"{min(ratios):.2f}–{max(ratios):.2f}" if ratios else "–",
        f"{median(timing.requests_per_second for timing in timings):.0f}",
        f"{median(timing.p50 for timing in timings):.2f}",
        f"{median(timing.p99 for timing in timings):.2f}",
        f"{first_event:.2f}" if streamed else "–",
        str(sum(timing.failed for timing in timings)),
    ]


def costs(measured: Sequence[tuple[Scenario, Blocks]]) -> str:
    """The table of all scenarios, in proportion to the pass-through."""
    lines = [_line("scenario", "server", HEADINGS)]
    for scenario, blocks in measured:
        title = f"{scenario.letter}  {scenario.title}"
        for server in ("pass-through", "gateway"):
            cells = _cells(blocks[server], blocks["pass-through"], streamed=scenario.streamed)
            lines.append(_line(title, server, cells))
            title = ""
    return "\n".join(lines)


def first_event_added(blocks: Blocks) -> str:
    """What a server adds to the time to the first event; over asking the mock upstream itself."""
    parts = []
    for server in ("pass-through", "gateway"):
        added = median(
            block.timing.first_event_p50 - direct.timing.first_event_p50
            for block, direct in zip(blocks[server], blocks["direct"], strict=True)
        )
        parts.append(f"{server} {added:+.2f} ms")
    return "time to the first event in B, added to the upstream's own: " + ", ".join(parts)


def chunk_cost(many: Blocks, few: Blocks, *, chunks: int) -> str:
    """What one more chunk costs, from two scenarios that differ by so many chunks."""
    parts = []
    for server in ("pass-through", "gateway"):
        added = median(block.cpu for block in many[server]) - median(
            block.cpu for block in few[server]
        )
        parts.append(f"{server} {added / chunks * 1000:.2f} µs")
    return f"CPU for each chunk, (B - G) / {chunks}: " + ", ".join(parts)


def memory(found: Sequence[Sequence[Memory]]) -> str:
    """A line for each server, of what several of its processes have held."""
    lines = [
        f"{found[0][0].streams} idle streams   RSS before   with them   KB a stream"
        "  lowest–highest  threads"
    ]
    for series in found:
        each = [entry.per_stream for entry in series]
        lines.append(
            f"{series[0].server:<18}"
            f"{median(entry.before for entry in series) / 1024:>8.1f} MB"
            f"{median(entry.held for entry in series) / 1024:>9.1f} MB"
            f"{median(each):>14.0f}"
            f"{f'{min(each):.0f}–{max(each):.0f}':>16}"
            f"{max(entry.threads for entry in series):>9}"
        )
    return "\n".join(lines)
