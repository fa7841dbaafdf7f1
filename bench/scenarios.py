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
    Scenario("D", "200 chunks, 10 ms apart, 20 at once", text=2344, connections=20, requests=60),
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
