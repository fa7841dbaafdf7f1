"""Inserts a batch of exchanges, with transcripts, failure groups and traffic sums, or nothing.

The SQL is generated from the models' columns, so a new column needs no change here. It costs a
sixth of `bulk_create`, and every request inserts a row.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

import msgspec
from django.db import connection, transaction
from django.db.models import DateTimeField, JSONField, Model

from proxy import models
from proxy.audit.failure_groups import count_failures
from proxy.audit.journal.entries import EndEntry
from proxy.audit.traffic.aggregation import count_traffic


class Table:
    """A model's columns, and the statement that inserts them."""

    def __init__(self, model: type[Model], expressions: Mapping[str, str] | None = None) -> None:
        """`expressions`: SQL by column, for columns that need more than a placeholder."""
        fields = [field for field in model._meta.concrete_fields if field.name != "id"]
        self._name = model._meta.db_table
        self._columns = [field.attname for field in fields]
        self._values = ", ".join((expressions or {}).get(name, "%s") for name in self._columns)
        self._in_order = itemgetter(*self._columns)
        self._json = [at for at, field in enumerate(fields) if isinstance(field, JSONField)]
        self._times = [at for at, field in enumerate(fields) if isinstance(field, DateTimeField)]
        self.defaults = {
            field.attname: field.get_default()
            for field in fields
            if field.null or field.has_default() or field.empty_strings_allowed
        }

    def insert(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert rows that have a value for every column."""
        columns = ", ".join(map(connection.ops.quote_name, self._columns))
        adapt_time = connection.ops.adapt_datetimefield_value
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self._name} ({columns}) VALUES ({self._values})",  # noqa: S608  names only
                [self._parameters(row, adapt_time) for row in rows],
            )

    def _parameters(self, row: Mapping[str, Any], adapt_time: Callable[[Any], Any]) -> list[Any]:
        values = [*self._in_order(row)]
        for at in self._json:
            values[at] = msgspec.json.encode(values[at]).decode()
        for at in self._times:
            values[at] = adapt_time(values[at])
        return values


_EXCHANGES = Table(models.Exchange)
# A transcript refers to its exchange by request id, because the batch does not know primary keys.
_KEY = f"(SELECT id FROM {models.Exchange._meta.db_table} WHERE request_id = %s)"  # noqa: S608
_TRANSCRIPTS = Table(models.Transcript, {"exchange_id": _KEY})
# Columns from before transcripts were packed. They have no default in the database.
_UNPACKED_COLUMNS = {**_TRANSCRIPTS.defaults, "raw": b"", "sent": b""}


@transaction.atomic
def insert_batch(batch: list[EndEntry]) -> None:
    """Insert a batch; raises errors of the database."""
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
    with_transcript = [entry for entry in batch if entry.packed is not None]
    if with_transcript:
        _TRANSCRIPTS.insert(
            {
                **_UNPACKED_COLUMNS,
                "packed": entry.packed,
                "exchange_id": entry.exchange["request_id"],
            }
            for entry in with_transcript
        )
    # Last: all processes update the sums of this hour, and wait for each other's locks.
    count_traffic(rows)


def entries_not_stored(batch: Iterable[EndEntry]) -> list[EndEntry]:
    """The entries whose exchange is not in the database."""
    entries = {entry.exchange["request_id"]: entry for entry in batch}
    rows = models.Exchange.objects.filter(request_id__in=entries)
    stored = set(rows.values_list("request_id", flat=True))
    return [entry for request_id, entry in entries.items() if request_id not in stored]
