"""Shared clock of all nodes: the time of the database server.

Clocks of machines differ, and a key must not expire on one node and stay valid on another. Each
check of the configuration's version also reads the database's time; the process adds the difference
to its own clock. A difference below one second is measurement noise and ignored. During an outage
the last difference stays. Durations use monotonic clocks instead.
"""

import logging
from datetime import UTC, datetime, timedelta

logger = logging.getLogger("athena.clock")

_NOISE = timedelta(seconds=1)
_LOGGED_CHANGE = timedelta(seconds=5)


class Clock:
    def __init__(self) -> None:
        self.skew = timedelta()
        """Database time minus the time of this machine."""

    def now(self) -> datetime:
        """Return the estimated time of the database server."""
        return datetime.now(UTC) + self.skew

    def compare(self, theirs: datetime, *, asked_at: datetime) -> None:
        """Update the skew from the database's time and the local time of the query."""
        answered_at = datetime.now(UTC)
        round_trip = answered_at - asked_at
        skew = theirs - asked_at - round_trip / 2
        if abs(skew) < _NOISE + abs(round_trip):
            skew = timedelta()
        if abs(skew - self.skew) > _LOGGED_CHANGE:
            logger.warning(
                "the database clock differs from this machine's by %+.0f s; the gateway uses the "
                "database clock",
                skew.total_seconds(),
            )
        self.skew = skew


clock = Clock()
