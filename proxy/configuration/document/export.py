"""Exports the rows as a document: the same configuration gives the same bytes on every database.

Rows and the names in mappings are sorted, and fields with their default value are left out. Secrets
are replaced by a placeholder.
"""

import sys
from datetime import UTC, datetime
from typing import Any, TypeAlias

import yaml
from django.db.models import Model

from formats import FORMATS
from proxy.configuration.document.schema import FORMAT_SETTINGS, GATEWAY, STORED, TABLES, Table
from proxy.configuration.editing import editing
from proxy.models import ClientKey, ConfigurationVersion, FormatDefinition, ModelRoute, Upstream
from proxy.security.secret_headers import carries_secret

Row: TypeAlias = dict[str, Any]
"""All fields of a row, as a document shows them."""
Document: TypeAlias = dict[str, list[Row]]

_MAX_EXACT = 2**53
"""The largest integer that every JSON reader keeps exactly."""

_HEADER = """\
# Athena's configuration, without secrets. `key: $NAME` is the key in that environment variable;
# `stored` is a secret in the gateway's database. A field that is left out has its default value. An
# import deletes rows that are left out, except client keys; a missing section stays unchanged.
athena: 1
"""


class _Dumper(yaml.SafeDumper):
    """The emitter in Python: the one in C is faster, but not available everywhere."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Only double quotes preserve every line break and blank.
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def export() -> tuple[str, int]:
    """The document of the current configuration, and its version."""
    with editing():  # no edit may come between the tables
        return render(current_document()), current_version()


def current_version() -> int:
    """The newest configuration version; 0 if there is no configuration yet."""
    return ConfigurationVersion.objects.values_list("number", flat=True).first() or 0


def current_document() -> Document:
    return {table.section: _rows(table) for table in TABLES}


def render(document: Document) -> str:
    """Render a document as YAML."""
    parts = [_HEADER]
    for table in TABLES:
        rows = [without_defaults(table, row) for row in document[table.section]]
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


def without_defaults(table: Table, row: Row) -> Row:
    """The row without fields that have their default; the identity is always kept."""
    return {
        field.name: row[field.name]
        for field in table.fields
        if row[field.name] != field.default or field.name in table.identity
    }


def row_of(table: Table, model: Any) -> Row:
    """A database row as a document shows it."""
    return {field.name: _value(model, field.name) for field in table.fields}


def _rows(table: Table) -> list[Row]:
    models = table.model._default_manager.select_related(*table.references)
    rows = [row_of(table, model) for model in models.order_by("pk")]
    if table is FORMAT_SETTINGS:  # rows of removed formats remain in the database
        known = {*FORMATS, *FormatDefinition.objects.values_list("name", flat=True)}
        rows = [row for row in rows if row["format"] in known]
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
            # A row that was written around the admin may hold anything: never export it blindly.
            headers = model.headers if isinstance(model.headers, dict) else {}
            return {n: STORED if carries_secret(n) else headers[n] for n in sorted(headers)}
    return _plain(getattr(model, name))


def _plain(value: Any) -> Any:
    """A column's value as a document shows it."""
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
            return str(value)  # a plain string instead of a choice
    return _sorted(value)


def _sorted(value: Any) -> Any:
    """JSON in one canonical form: PostgreSQL changes the order of names and the digits."""
    match value:
        case dict():
            return {name: _sorted(value[name]) for name in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case int() if _MAX_EXACT < abs(value) <= sys.float_info.max:
            return float(value)
        case float():
            return value or 0.0  # PostgreSQL has no negative zero
    return value
