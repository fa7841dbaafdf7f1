"""Targets, and the results of a peer in Go on another machine.

Both come from prototypes and peers that were measured on 2026-11-16 on a machine with two cores of
2.8 GHz. Only their ratios are comparable.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    milliseconds: float
    passthrough: float | None
    """Milliseconds of the pass-through in that run."""
    go: float | None
    """Milliseconds of the peer in Go in that run."""

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
"""Maximum of milliseconds added to the first event of B."""
GO_FIRST_EVENT = 2.4
IDLE_STREAM = 150
"""Maximum of kilobytes per idle stream."""
GO_IDLE_STREAM = 276
AUDIT_SHARE = 0.15
PARTS = Target(0.3, TARGETS["B"].passthrough, None)
"""Keys, routing and audit together."""
GO = "athena in Go, other machine"
GO_PEER = "athena-go"
"""The folder in `.peers/` of the same gateway; if it exists, it is measured and not cited."""
GO_NOTE = (
    "The peer in Go (martinffx/athena c4f090b, Go 1.27.3) is in no registry and was not in this "
    "run. Its column has its ratios to the pass-through on 2026-11-16 on another machine with two "
    "cores."
)
