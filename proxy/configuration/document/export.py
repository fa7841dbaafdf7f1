"""Rows → the document: the same configuration gives the same bytes, on every database.

Rows and the names in mappings are sorted, fields that have their default are left out, and a secret
is only said to be there.
"""

import sys
from datetime import UTC, datetime
from typing import Any, TypeAlias

import yaml
from django.db import transaction
from django.db.models import Model

from formats import FORMATS
from proxy.configuration.document.schema import FORMAT_SETTINGS, GATEWAY, STORED, TABLES, Table
from proxy.models import ClientKey, ConfigurationVersion, ModelRoute, Upstream
from proxy.security.secret_headers import carries_secret

Row: TypeAlias = dict[str, Any]
"""What a document says of a row, every field of it."""
Document: TypeAlias = dict[str, list[Row]]

_EXACT = 2**53
"""What JSON's numbers can be counted up to."""

_HEADER = """\
# Athena's configuration, without secrets: `key: $NAME` means the key in that environment variable,
# `stored` a secret that the gateway keeps. A field that is left out has its default. A row that is
# left out is deleted, except a client key; a section that is left out stays as it is.
athena: 1
"""


class _Dumper(yaml.SafeDumper):
    """Not the emitter in C, which is faster and not everywhere."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Only in double quotes do all line breaks and blanks come back as they were.
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


@transaction.atomic
def export() -> tuple[str, int]:
    """The document of the present configuration, and the number of its version."""
    ConfigurationVersion.lock()
    return render(current()), present_version()


def present_version() -> int:
    """The number of the newest version; 0 where there is no configuration yet."""
    return ConfigurationVersion.objects.values_list("number", flat=True).first() or 0


def current() -> Document:
    return {table.section: _rows(table) for table in TABLES}


def render(document: Document) -> str:
    """The YAML text of a document."""
    parts = [_HEADER]
    for table in TABLES:
        rows = [lean(table, row) for row in document[table.section]]
        if table is GATEWAY:
            if not rows:  # the gateway was never started
                continue
            body: Any = rows[0]
        else:
            body = rows
        parts.append(
            yaml.dump(
                {table.section: body},
                Dumper=_Dumper,
                allow_unicode=True,
                sort_keys=False,
                width=float("inf"),
            )
        )
    return "\n".join(parts)


def lean(table: Table, row: Row) -> Row:
    """Without the fields that have their default; what the row is known by is always said."""
    return {
        field.name: row[field.name]
        for field in table.fields
        if row[field.name] != field.default or field.name in table.identity
    }


def row_of(table: Table, model: Any) -> Row:
    """What a document says of a row of the database."""
    return {field.name: _value(model, field.name) for field in table.fields}


def _rows(table: Table) -> list[Row]:
    models = table.model._default_manager.select_related(*table.references)
    rows = [row_of(table, model) for model in models.order_by("pk")]
    if table is FORMAT_SETTINGS:  # a format that is gone leaves a row behind
        rows = [row for row in rows if row["format"] in FORMATS]
    return sorted(rows, key=lambda row: [row[name] for name in table.order])


def _value(model: Any, name: str) -> Any:
    match name:
        case "key" if isinstance(model, Upstream):
            if model.key_variable:
                return f"${model.key_variable}"
            return STORED if model.sealed_key else None
        case "key" | "revoked" if isinstance(model, ClientKey):
            return None if name == "key" else model.revoked_at is not None
        case "headers":
            # A row that came past the admin may have anything; what is not understood is not told.
            headers = model.headers if isinstance(model.headers, dict) else {}
            return {n: STORED if carries_secret(n) else headers[n] for n in sorted(headers)}
    return _plain(getattr(model, name))


def _plain(value: Any) -> Any:
    """A column's value, as a document has it."""
    match value:
        case Upstream():
            return value.name
        case ModelRoute():
            return value.pattern
        case Model():
            return value.get_username()  # type: ignore[attr-defined]
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case float() if value.is_integer():
            return int(value)
        case str():
            return str(value)  # a choice is more than its text
    return _sorted(value)


def _sorted(value: Any) -> Any:
    """JSON in one spelling: PostgreSQL has another order and other digits."""
    match value:
        case dict():
            return {name: _sorted(value[name]) for name in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case int() if _EXACT < abs(value) <= sys.float_info.max:
            return float(value)
        case float():
            return value or 0.0  # there it has no negative zero
    return value
