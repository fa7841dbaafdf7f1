"""What changed between two documents: rows that came and went, and fields with their old value."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proxy.configuration.document.export import Document, Row, lean
from proxy.configuration.document.schema import TABLES, Table

ADDED, REMOVED, CHANGED = "added", "removed", "changed"


@dataclass(frozen=True, slots=True)
class Alteration:
    """Of one field; a side where the row is not there has no text."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Change:
    """Of one row."""

    section: str
    name: str
    kind: str
    fields: tuple[Alteration, ...]


def difference(before: Document, after: Document) -> list[Change]:
    return [
        change
        for table in TABLES
        for change in _changes(table, before[table.section], after[table.section])
    ]


def _changes(table: Table, before: list[Row], after: list[Row]) -> Iterator[Change]:
    old, new = _by_name(table, before), _by_name(table, after)
    for name, row in new.items():
        if name not in old:
            fields = tuple(Alteration(f, "", _text(v)) for f, v in _said(table, row))
            yield Change(table.section, name, ADDED, fields)
            continue
        fields = tuple(
            Alteration(field, _text(old[name][field]), _text(value))
            for field, value in row.items()
            if _text(old[name][field]) != _text(value)
        )
        if fields:
            yield Change(table.section, name, CHANGED, fields)
    for name, row in old.items():
        if name not in new:
            fields = tuple(Alteration(f, _text(v), "") for f, v in _said(table, row))
            yield Change(table.section, name, REMOVED, fields)


def _said(table: Table, row: Row) -> list[tuple[str, Any]]:
    """What is worth telling of a row that came or went, besides its name."""
    fields = lean(table, row).items()
    return [(name, value) for name, value in fields if name not in table.identity]


def _by_name(table: Table, rows: list[Row]) -> dict[str, Row]:
    """Client keys may look alike: of those each further one has a number."""
    found: dict[str, Row] = {}
    counts: Counter[str] = Counter()
    for row in rows:
        name = " ".join(str(row[part]) for part in table.identity)
        counts[name] += 1
        found[name if counts[name] == 1 else f"{name} ({counts[name]})"] = row
    return found


def _text(value: Any) -> str:
    """As YAML would have it, on one line."""
    if isinstance(value, str) and value:
        return value
    return json.dumps(value, ensure_ascii=False)
