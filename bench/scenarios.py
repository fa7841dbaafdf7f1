"""The scenarios that the mock upstream plays, and what a client must get to see of each.

The letters are those of `mock_answers.c`, which makes the upstream's side. A gateway that answers
otherwise than it says here is not measured: a wrong answer is easily a fast one.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scenario:
    letter: str
    title: str
    text: int
    """Characters of text in the answer."""
    calls: tuple[tuple[str, int], ...] = ()
    """Tools called, and how long their arguments are as JSON without spaces."""
    stop_reason: str = "end_turn"
    streamed: bool = True
    """Whether the client asks for a stream."""
    connections: int = 1
    requests: int | None = None
    """In a block; None for as many as fit into the time of one."""


KIMI_CALLS = (("Read", 88), ("Bash", 69))

_ALL = (
    Scenario("A", "a whole answer of 2 KB", text=1476, streamed=False),
    Scenario("B", "200 chunks in few writes", text=2344),
    Scenario("C", "200 chunks, a write each", text=2344),
    # A stream takes two seconds, so time alone would give too few of them.
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
"""One chunk, then silence: the streams that are counted for memory and threads."""

GROWING_CHUNKS = (200, 2_000, 20_000, 200_000)
GROWING_BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def growing_text(chunks: int) -> Scenario:
    """As B, with so many chunks."""
    # A sentence of 82 characters is seven chunks, of twelve characters but for the last.
    sentences, rest = divmod(chunks, 7)
    return Scenario(f"T{chunks}", f"{chunks:,} chunks", text=82 * sentences + 12 * rest)


def growing_arguments(size: int) -> Scenario:
    """As F, with about so many bytes of arguments, in deltas of a hundred."""
    before, line, behind = 55, 41, 2
    lines = -(-(size - behind - before) // line)
    # Without the three spaces that JSON can do without.
    call = ("Write", before + lines * line + behind - 3)
    title = f"{size:,} bytes of arguments"
    return Scenario(f"U{size}", title, text=0, calls=(call,), stop_reason="tool_use")


GROWING = (
    *(growing_text(chunks) for chunks in GROWING_CHUNKS),
    *(growing_arguments(size) for size in GROWING_BYTES),
)
