"""The scenarios of the mock upstream, each with the answer that a client must get.

The letters are those of `mock_answers.c`, which makes the upstream's answers. A gateway with a
wrong answer is not measured: a wrong answer may be a fast one.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scenario:
    letter: str
    title: str
    text: int
    """Characters of text in the answer."""
    calls: tuple[tuple[str, int], ...] = ()
    """Names of the called tools, with the length of their arguments as JSON without spaces."""
    stop_reason: str = "end_turn"
    streamed: bool = True
    """True if the client asks for a stream."""
    connections: int = 1
    requests: int | None = None
    """Requests in a block; None for as many as fit into its time."""


KIMI_CALLS = (("Read", 88), ("Bash", 69))

_ALL = (
    Scenario("A", "a whole answer of 2 KB", text=1476, streamed=False),
    Scenario("B", "200 chunks in few writes", text=2344),
    Scenario("C", "200 chunks, a write each", text=2344),
    # A stream takes two seconds, so too few would fit into the time of a block.
    Scenario("D", "200 chunks, 10 ms apart, 20 at once", text=2344, connections=20, requests=40),
    Scenario("E", "two calls in Kimi's tokens", text=26, calls=KIMI_CALLS, stop_reason="tool_use"),
    Scenario(
        "F",
        "4,000 deltas of arguments, 40 KB",
        text=0,
        calls=(("Write", 40_029),),
        stop_reason="tool_use",
    ),
    Scenario("G", "3 chunks: what any stream costs", text=36),
)
SCENARIOS = {scenario.letter: scenario for scenario in _ALL}

IDLE = "H"
"""One chunk, then silence, to measure memory and threads."""

GROWING_CHUNKS = (200, 2_000, 20_000, 200_000)
GROWING_BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def growing_text(chunks: int) -> Scenario:
    """B with another number of chunks."""
    # A sentence of 82 characters is seven chunks of 12 characters, the last one shorter.
    sentences, rest = divmod(chunks, 7)
    return Scenario(f"T{chunks}", f"{chunks:,} chunks", text=82 * sentences + 12 * rest)


def growing_arguments(size: int) -> Scenario:
    """F with about `size` bytes of arguments, in deltas of 100 bytes."""
    before, line, after = 55, 41, 2
    lines = -(-(size - after - before) // line)
    # Without three optional spaces of the JSON.
    call = ("Write", before + lines * line + after - 3)
    title = f"{size:,} bytes of arguments"
    return Scenario(f"U{size}", title, text=0, calls=(call,), stop_reason="tool_use")


GROWING = (
    *(growing_text(chunks) for chunks in GROWING_CHUNKS),
    *(growing_arguments(size) for size in GROWING_BYTES),
)
