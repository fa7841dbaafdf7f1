"""What was changed, when and by whom: every save of a configuration row leaves a record.

The record carries the number of the configuration's version that the change made, so that a row's
newest number says whether somebody changed it since it was read. Secrets, their hashes included,
are left out; bringing an old record back leaves them as they are.
"""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import models
from simple_history.models import HistoricalRecords


class Change(models.Model):
    """What our records have besides the row's own fields."""

    version = models.PositiveBigIntegerField(default=0)

    class Meta:
        abstract = True

    # Of every record, by simple-history.
    id: int
    history_id: int
    history_date: datetime
    history_type: str
    history_user: User | None
    history_change_reason: str | None
    instance_type: type[models.Model]
    _history_excluded_fields: list[str]


def recorded(*left_out: str) -> HistoricalRecords:
    """The history of a table, without the fields that are left out."""
    return HistoricalRecords(bases=[Change], excluded_fields=list(left_out))
