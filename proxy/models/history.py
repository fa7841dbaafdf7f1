"""The history of configuration rows: every save and deletion leaves a record.

A record holds the configuration version that the change made, so that the version of a row's newest
record tells whether the row has changed since it was read. Secrets and their hashes are not
recorded; restoring an old record leaves them unchanged.
"""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import models
from simple_history.models import HistoricalRecords


class Change(models.Model):
    """The fields that every record has besides those of its row."""

    version = models.PositiveBigIntegerField(default=0)

    class Meta:
        abstract = True

    # Added to every record by simple-history.
    id: int
    history_id: int
    history_date: datetime
    history_type: str
    history_user: User | None
    history_change_reason: str | None
    instance_type: type[models.Model]
    _history_excluded_fields: list[str]


def recorded(*left_out: str) -> HistoricalRecords:
    """The history of a table; `left_out` fields are not recorded."""
    return HistoricalRecords(bases=[Change], excluded_fields=list(left_out))
