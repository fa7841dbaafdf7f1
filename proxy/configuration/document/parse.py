"""The document → a draft: what each row shall be, typed, with the places to blame.

Nothing is looked up here. What has the wrong type, is not known or is missing is a problem, and the
rest is read on, so that everything that is wrong is told at once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_date, parse_datetime

from proxy.configuration.document.problems import Place, Problem, Refused
from proxy.configuration.document.schema import GATEWAY, KEYS, STORED, TABLES, Field, Kind, Table
from proxy.configuration.document.yaml_nodes import Node, compose, join
from proxy.security.visible_text import visible

VERSION = 1
_VARIABLE = re.compile(r"\$[A-Z_][A-Z0-9_]{0,99}")
_LARGEST = 2**31 - 1  # what PostgreSQL holds; a document is good for every database, or for none
_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.TEXT: (str,),
    Kind.WHOLE: (int,),
    Kind.NUMBER: (int, float),
    Kind.FLAG: (bool,),
    Kind.LIST: (list,),
    Kind.OBJECT: (dict,),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One row, as the document wants it."""

    table: Table
    path: str
    place: Place
    values: dict[str, Any]
    """Of every field; its default where the document does not say."""
    places: dict[str, Place]
    """Of the fields that the document has."""
    wrong: frozenset[str] = frozenset()
    """Fields whose value cannot be used, which was said already."""

    @property
    def identity(self) -> tuple[Any, ...]:
        return tuple(self.values[name] for name in self.table.identity)

    def problem(self, name: str, message: str) -> Problem:
        """With a field, or with the row if the name is empty."""
        path = join(self.path, name) if name else self.path
        return Problem(self.places.get(name, self.place), path, message)


@dataclass(frozen=True, slots=True)
class Draft:
    sections: dict[str, list[Entry]] = field(default_factory=dict)
    """Those that the document has."""
    places: dict[str, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read(text: str) -> Draft:
    """What a document says; raises Refused where there is no reading on."""
    root, problems = compose(text)
    if not isinstance(root.value, dict):
        raise Refused(
            [Problem(root.place, "", "a document is a mapping: `athena: 1`, and sections")]
        )
    draft = Draft(problems=problems)
    nodes: dict[str, Node] = dict(root.value)
    version = nodes.pop("athena", None)
    if version is None:
        message = f"`athena: {VERSION}` is missing: it says which shape the document has"
        raise Refused([Problem(root.place, "", message)])
    if version.value is True or version.value != VERSION:
        message = f"this gateway reads documents of the shape {VERSION} only"
        raise Refused([Problem(version.place, "athena", message)])
    for table in TABLES:
        if (node := nodes.pop(table.section, None)) is not None:
            draft.places[table.section] = node.place
            draft.sections[table.section] = [*_entries(table, node, problems)]
    for name, node in nodes.items():
        problems.append(Problem(node.place, join("", name), "there is no such section"))
    return draft


def _entries(table: Table, section: Node, problems: list[Problem]) -> Iterator[Entry]:
    path = table.section
    if table is GATEWAY:
        if isinstance(section.value, dict):
            yield _entry(table, section, path, problems)
        else:
            problems.append(Problem(section.place, path, "it must be a mapping"))
        return
    if not isinstance(section.value, list):
        problems.append(Problem(section.place, path, "it must be a list; `[]` for none"))
        return
    seen: set[tuple[Any, ...]] = set()
    for number, node in enumerate(section.value):
        inner = f"{path}[{number}]"
        if not isinstance(node.value, dict):
            problems.append(Problem(node.place, inner, "it must be a mapping"))
            continue
        entry = _entry(table, node, inner, problems)
        name = table.identity[0]
        # Two client keys may look alike, and one that is wrong is known by nothing.
        if table is not KEYS and name not in entry.wrong and entry.identity in seen:
            problems.append(entry.problem(name, f"{shown(entry.values[name])} is there twice"))
            continue
        seen.add(entry.identity)
        yield entry


def _entry(table: Table, node: Node, path: str, problems: list[Problem]) -> Entry:
    values, wrong = {}, set()
    given: dict[str, Node] = dict(node.value)
    places = {name: value.place for name, value in given.items()}
    for column in table.fields:
        values[column.name] = column.default
        value = given.pop(column.name, None)
        if value is None:
            if column.is_required:
                wrong.add(column.name)
                problems.append(Problem(node.place, join(path, column.name), "it is missing"))
            continue
        try:
            values[column.name] = _value(column, value.plain())
        except ValueError as error:
            wrong.add(column.name)
            problems.append(Problem(value.place, join(path, column.name), str(error)))
    for name, value in given.items():
        problems.append(Problem(value.place, join(path, name), "there is no such field"))
    return Entry(table, path, node.place, values, places, frozenset(wrong))


def _value(column: Field, value: Any) -> Any:
    """The value of a field; raises ValueError with what it must be."""
    if value is None and column.is_nullable:
        return None
    kind = column.kind
    if kind in (Kind.KEY, Kind.STORED_KEY):
        allowed = kind is Kind.STORED_KEY and value == STORED
        if not allowed and not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
            # What is there instead may be the secret itself.
            raise ValueError(f"it must be {kind.value}; a key itself has no place here")
        return value
    if kind is Kind.MOMENT:
        moment = _moment(value) if isinstance(value, str) else None
        if moment is None:
            raise ValueError(f"it must be {kind.value}, not {shown(value)}")
        return moment
    is_right = isinstance(value, _TYPES[kind])
    if isinstance(value, bool) and kind is not Kind.FLAG:
        is_right = False
    if not is_right:
        hint = "; put it into quotes" if kind is Kind.TEXT and not isinstance(value, list) else ""
        raise ValueError(f"it must be {kind.value}, not {shown(value)}{hint}")
    if kind is Kind.WHOLE and abs(value) > _LARGEST:
        raise ValueError(f"{value} is more than any number here can be")
    return value


def _moment(text: str) -> datetime | None:
    try:
        moment = parse_datetime(text)
        if moment is None and (day := parse_date(text)):
            moment = datetime(day.year, day.month, day.day)  # noqa: DTZ001
        if moment is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC) if moment else None
    except (ValueError, OverflowError):
        return None


def shown(value: Any) -> str:
    """A value in a sentence."""
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
