"""Compares two documents: added and removed rows, and changed fields with both values."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proxy.configuration.document.export import Document, Row, without_defaults
from proxy.configuration.document.schema import TABLES, Table

ADDED, REMOVED, CHANGED = "added", "removed", "changed"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A changed field; `before` is empty for an added row, `after` for a removed one."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RowChange:
    """An added, removed or changed row."""

    section: str
    name: str
    kind: str
    fields: tuple[FieldChange, ...]


def diff(before: Document, after: Document) -> list[RowChange]:
    return [
        change
        for table in TABLES
        for change in _changes(table, before[table.section], after[table.section])
    ]


def _changes(table: Table, before: list[Row], after: list[Row]) -> Iterator[RowChange]:
    old, new = _by_name(table, before), _by_name(table, after)
    for name, row in new.items():
        if name not in old:
            fields = tuple(FieldChange(f, "", _text(v)) for f, v in _fields_to_show(table, row))
            yield RowChange(table.section, name, ADDED, fields)
            continue
        fields = tuple(
            FieldChange(field, _text(old[name][field]), _text(value))
            for field, value in row.items()
            if _text(old[name][field]) != _text(value)
        )
        if fields:
            yield RowChange(table.section, name, CHANGED, fields)
    for name, row in old.items():
        if name not in new:
            fields = tuple(FieldChange(f, _text(v), "") for f, v in _fields_to_show(table, row))
            yield RowChange(table.section, name, REMOVED, fields)


def _fields_to_show(table: Table, row: Row) -> list[tuple[str, Any]]:
    """The fields of an added or removed row that differ from the default, without its name."""
    fields = without_defaults(table, row).items()
    return [(name, value) for name, value in fields if name not in table.identity]


def _by_name(table: Table, rows: list[Row]) -> dict[str, Row]:
    """The rows by name. Client keys may share a name: the second gets a number, and so on."""
    by_name: dict[str, Row] = {}
    counts: Counter[str] = Counter()
    for row in rows:
        name = " ".join(str(row[part]) for part in table.identity)
        counts[name] += 1
        by_name[name if counts[name] == 1 else f"{name} ({counts[name]})"] = row
    return by_name


def _text(value: Any) -> str:
    """The value on one line, as YAML would write it."""
    if isinstance(value, str) and value:
        return value
    return json.dumps(value, ensure_ascii=False)
