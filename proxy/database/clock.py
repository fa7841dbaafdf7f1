"""One time for all nodes: the database's.

The clocks of machines differ, and a key must not be over on one node and valid on another. With
every look at the configuration's version a process learns what time it is there, and adds the
difference to its own clock. Less than a second is left alone: so much is the noise of asking. When
the database is away, the last difference stays. Durations are measured by clocks that never step.
"""

import logging
from datetime import UTC, datetime, timedelta

logger = logging.getLogger("athena.clock")

_NOISE = timedelta(seconds=1)
_NOTABLE = timedelta(seconds=5)


class Clock:
    def __init__(self) -> None:
        self.skew = timedelta()
        """What the database's clock is ahead of this machine's."""

    def now(self) -> datetime:
        """The database's time, as far as this process knows it."""
        return datetime.now(UTC) + self.skew

    def compare(self, theirs: datetime, *, asked_at: datetime) -> None:
        """Take note of what the database's clock says, and when it was asked."""
        answered_at = datetime.now(UTC)
        taken = answered_at - asked_at
        skew = theirs - asked_at - taken / 2
        if abs(skew) < _NOISE + abs(taken):
            skew = timedelta()
        if abs(skew - self.skew) > _NOTABLE:
            logger.warning(
                "the database's clock is %+.0f s from this machine's, and is the one that counts",
                skew.total_seconds(),
            )
        self.skew = skew


clock = Clock()
