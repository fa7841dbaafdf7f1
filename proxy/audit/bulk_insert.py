"""A batch of exchanges → the database: all of it or nothing.

Rows are written with statements of our own, which cost a sixth of what models do: every request
makes one. The columns are the model's, so that a new one needs no change here.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

import msgspec
from django.db import connection, transaction
from django.db.models import DateTimeField, JSONField, Model

from proxy import models
from proxy.audit.failure_groups import count_failures
from proxy.audit.journal.entries import Entry
from proxy.audit.traffic.sums import count_traffic


class Table:
    """A model's columns, and the statement that fills them."""

    def __init__(self, model: type[Model], marks: Mapping[str, str] | None = None) -> None:
        """`marks`: of columns that are not given as they are, what stands in the statement."""
        fields = [field for field in model._meta.concrete_fields if field.name != "id"]
        self._name = model._meta.db_table
        self._columns = [field.attname for field in fields]
        self._marks = ", ".join((marks or {}).get(name, "%s") for name in self._columns)
        self._in_order = itemgetter(*self._columns)
        self._json = [at for at, field in enumerate(fields) if isinstance(field, JSONField)]
        self._moments = [at for at, field in enumerate(fields) if isinstance(field, DateTimeField)]
        self.defaults = {
            field.attname: field.get_default()
            for field in fields
            if field.null or field.has_default() or field.empty_strings_allowed
        }

    def insert(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Save rows that have a value for every column."""
        columns = ", ".join(map(connection.ops.quote_name, self._columns))
        adapt = connection.ops.adapt_datetimefield_value
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self._name} ({columns}) VALUES ({self._marks})",  # noqa: S608  no value is in it
                [self._values(row, adapt) for row in rows],
            )

    def _values(self, row: Mapping[str, Any], adapt: Callable[[Any], Any]) -> list[Any]:
        """A row as the database takes it; `adapt` is for moments."""
        values = [*self._in_order(row)]
        for at in self._json:
            values[at] = msgspec.json.encode(values[at]).decode()
        for at in self._moments:
            values[at] = adapt(values[at])
        return values


_EXCHANGES = Table(models.Exchange)
# A batch knows its exchanges by the names that they have outside.
_KEY = f"(SELECT id FROM {models.Exchange._meta.db_table} WHERE request_id = %s)"  # noqa: S608
_TRANSCRIPTS = Table(models.Transcript, {"exchange_id": _KEY})
# The columns that the version before reads have no default in the database.
_FORMER = {**_TRANSCRIPTS.defaults, "raw": b"", "sent": b""}


@transaction.atomic
def write(batch: list[Entry]) -> None:
    """Save a batch; raises what the database does."""
    groups = count_failures([(e.fingerprint, e.exchange) for e in batch if e.fingerprint])
    rows = [
        {
            **_EXCHANGES.defaults,
            **entry.exchange,
            "group_id": entry.fingerprint and groups[entry.fingerprint].pk,
        }
        for entry in batch
    ]
    _EXCHANGES.insert(rows)
    kept = [e for e in batch if e.packed is not None]
    if kept:
        _TRANSCRIPTS.insert(
            {**_FORMER, "packed": entry.packed, "exchange_id": entry.exchange["request_id"]}
            for entry in kept
        )
    # Last: every process adds to the sums of this hour, and waits for whoever is at it.
    count_traffic(rows)


def missing_of(batch: Iterable[Entry]) -> list[Entry]:
    """Those that the database does not have: the answer to a commit may have been lost."""
    found = {entry.exchange["request_id"]: entry for entry in batch}
    rows = models.Exchange.objects.filter(request_id__in=found)
    stored = set(rows.values_list("request_id", flat=True))
    return [entry for request_id, entry in found.items() if request_id not in stored]
