"""What is to be reached, and what a peer reached elsewhere that no registry has.

Both from one set of prototypes and peers that were measured on another machine (two cores, 2.8 GHz)
on 2026-11-16. Its milliseconds mean nothing here, its ratios do.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    milliseconds: float
    passthrough: float | None
    """What passing the bytes on took in that run, in milliseconds."""
    go: float | None
    """What the peer in Go took in that run, in milliseconds."""

    @property
    def ratio(self) -> float | None:
        return self.milliseconds / self.passthrough if self.passthrough else None

    @property
    def go_ratio(self) -> float | None:
        return self.go / self.passthrough if self.go and self.passthrough else None


TARGETS = {
    "A": Target(1.1, 0.06, 2.58),
    "B": Target(1.6, 0.09, 6.5),
    "C": Target(2.0, 0.43, 6.45),
    "D": Target(15, 4.0, 21),
    "F": Target(16, None, 212),
}
FIRST_EVENT = 1.6
"""Milliseconds that may be added to the first event of B; the peer in Go adds 2.4."""
GO_FIRST_EVENT = 2.4
IDLE_STREAM = 150
"""Kilobytes; the peer in Go takes 276."""
GO_IDLE_STREAM = 276
AUDIT_SHARE = 0.15
PARTS = Target(0.3, TARGETS["B"].passthrough, None)
"""For keys, routing and audit together."""
GO = "athena in Go, elsewhere"
GO_PEER = "athena-go"
"""The same, where somebody has built it into `.peers/`: then it is in the run, and is not cited."""
GO_NOTE = (
    "The peer in Go (martinffx/athena c4f090b, Go 1.27.3) is in no registry and was not in this "
    "run: its column has what it reached on 2026-11-16 on another machine of two cores, as a ratio "
    "to the pass-through of that run."
)
