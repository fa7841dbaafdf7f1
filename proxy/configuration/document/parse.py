"""Parses a document into a draft: the typed values of each row, with their positions.

Uses no database. Wrong types and unknown or missing fields are collected as problems, and parsing
goes on, so that all problems are reported at once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_date, parse_datetime

from proxy.configuration.document.problems import InvalidDocument, Position, Problem
from proxy.configuration.document.schema import GATEWAY, KEYS, STORED, TABLES, Field, Kind, Table
from proxy.configuration.document.yaml_nodes import Node, compose, join
from proxy.security.visible_text import visible

VERSION = 1
_VARIABLE = re.compile(r"\$[A-Z_][A-Z0-9_]{0,99}")
_MAX_INTEGER = 2**31 - 1  # the limit of PostgreSQL, on every database
_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.TEXT: (str,),
    Kind.INTEGER: (int,),
    Kind.NUMBER: (int, float),
    Kind.BOOLEAN: (bool,),
    Kind.LIST: (list,),
    Kind.OBJECT: (dict,),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the document."""

    table: Table
    path: str
    position: Position
    values: dict[str, Any]
    """The value of every field; the default if the document leaves it out."""
    positions: dict[str, Position]
    """The positions of the fields that the document contains."""
    invalid: frozenset[str] = frozenset()
    """Fields with an invalid value, whose problem is already reported."""

    @property
    def identity(self) -> tuple[Any, ...]:
        return tuple(self.values[name] for name in self.table.identity)

    def problem(self, name: str, message: str) -> Problem:
        """A problem of a field, or of the whole row if the name is empty."""
        path = join(self.path, name) if name else self.path
        return Problem(self.positions.get(name, self.position), path, message)


@dataclass(frozen=True, slots=True)
class Draft:
    sections: dict[str, list[Entry]] = field(default_factory=dict)
    """The rows of each section that the document contains."""
    positions: dict[str, Position] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def parse(text: str) -> Draft:
    """Parse a document; raises InvalidDocument if it cannot be parsed at all."""
    root, problems = compose(text)
    if not isinstance(root.value, dict):
        message = "a document must be a mapping with `athena: 1` and sections"
        raise InvalidDocument([Problem(root.position, "", message)])
    draft = Draft(problems=problems)
    nodes: dict[str, Node] = dict(root.value)
    version = nodes.pop("athena", None)
    if version is None:
        message = f"`athena: {VERSION}`, the version of the document's format, is missing"
        problems.append(Problem(root.position, "", message))
    elif version.value is True or version.value != VERSION:
        message = f"this gateway reads only version {VERSION} of the document's format"
        raise InvalidDocument([Problem(version.position, "athena", message)])
    for table in TABLES:
        if (node := nodes.pop(table.section, None)) is not None:
            draft.positions[table.section] = node.position
            draft.sections[table.section] = [*_entries(table, node, problems)]
    for name, node in nodes.items():
        problems.append(Problem(node.position, join("", name), "this section does not exist"))
    return draft


def _entries(table: Table, section: Node, problems: list[Problem]) -> Iterator[Entry]:
    path = table.section
    if table is GATEWAY:
        if isinstance(section.value, dict):
            yield _entry(table, section, path, problems)
        else:
            problems.append(Problem(section.position, path, "it must be a mapping"))
        return
    if not isinstance(section.value, list):
        problems.append(
            Problem(section.position, path, "it must be a list; write `[]` for an empty one")
        )
        return
    seen: set[tuple[Any, ...]] = set()
    for number, node in enumerate(section.value):
        inner = f"{path}[{number}]"
        if not isinstance(node.value, dict):
            problems.append(Problem(node.position, inner, "it must be a mapping"))
            continue
        entry = _entry(table, node, inner, problems)
        name = table.identity[0]
        # Client keys may share a name, and a row without a valid name cannot be compared.
        if table is not KEYS and name not in entry.invalid and entry.identity in seen:
            problems.append(entry.problem(name, f"{quote(entry.values[name])} appears twice"))
            continue
        seen.add(entry.identity)
        yield entry


def _entry(table: Table, node: Node, path: str, problems: list[Problem]) -> Entry:
    values, invalid = {}, set()
    nodes: dict[str, Node] = dict(node.value)
    positions = {name: value.position for name, value in nodes.items()}
    for column in table.fields:
        values[column.name] = column.default
        value = nodes.pop(column.name, None)
        if value is None:
            if column.is_required:
                invalid.add(column.name)
                problems.append(
                    Problem(node.position, join(path, column.name), "this field is missing")
                )
            continue
        try:
            values[column.name] = _value(column, value.plain())
        except ValueError as error:
            invalid.add(column.name)
            problems.append(Problem(value.position, join(path, column.name), str(error)))
    for name, value in nodes.items():
        problems.append(Problem(value.position, join(path, name), "this field does not exist"))
    return Entry(table, path, node.position, values, positions, frozenset(invalid))


def _value(column: Field, value: Any) -> Any:
    """The typed value of a field; raises ValueError saying what it must be."""
    if value is None and column.is_nullable:
        return None
    kind = column.kind
    if kind in (Kind.KEY, Kind.STORED_KEY):
        allowed = kind is Kind.STORED_KEY and value == STORED
        if not allowed and not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
            # The value is not repeated: it may be the secret itself.
            raise ValueError(f"it must be {kind.value}; never write a key itself here")
        return value
    if kind is Kind.TIME:
        time = _parse_time(value) if isinstance(value, str) else None
        if time is None:
            raise ValueError(f"it must be {kind.value}, not {quote(value)}")
        return time
    has_type = isinstance(value, _TYPES[kind])
    if isinstance(value, bool) and kind is not Kind.BOOLEAN:
        has_type = False
    if not has_type:
        hint = "; put it in quotes" if kind is Kind.TEXT and not isinstance(value, list) else ""
        raise ValueError(f"it must be {kind.value}, not {quote(value)}{hint}")
    if kind is Kind.INTEGER and abs(value) > _MAX_INTEGER:
        raise ValueError(f"{value} is too large; the maximum is {_MAX_INTEGER}")
    return value


def _parse_time(text: str) -> datetime | None:
    try:
        time = parse_datetime(text)
        if time is None and (day := parse_date(text)):
            time = datetime(day.year, day.month, day.day)  # noqa: DTZ001
        if time is not None and time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC) if time else None
    except (ValueError, OverflowError):
        return None


def quote(value: Any) -> str:
    """A value as it appears in a message."""
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case list():
            return "a list"
        case dict():
            return "a mapping"
    text = visible(str(value)[:80])
    return f"'{text}'" if isinstance(value, str) else text
