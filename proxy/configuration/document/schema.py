"""The sections of a document: the fields of each table, their types and defaults.

The field names come from `proxy.configuration.fields`; secrets are represented by `key`. Rows are
identified by a name, a pattern or a label, never by their id.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from django.db import models

from proxy.configuration.fields import (
    DEFINITION_FIELDS,
    FORMAT_FIELDS,
    GATEWAY_FIELDS,
    KEY_FIELDS,
    OVERRIDE_FIELDS,
    ROUTE_FIELDS,
    UPSTREAM_FIELDS,
)
from proxy.models import (
    ClientKey,
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)

STORED = "stored"
"""Stands for a secret that the database holds and the document does not show."""


class Kind(Enum):
    """The type of a field. The values complete the sentence "it must be …"."""

    TEXT = "text"
    INTEGER = "a whole number"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    TIME = "a time such as 2027-01-31T12:00:00Z"
    LIST = "a list"
    OBJECT = "a mapping"
    KEY = "`$NAME`, the name of an environment variable"
    STORED_KEY = "`stored`, or `$NAME`, the name of an environment variable"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    default: Any = None
    """The value of a field that the document leaves out."""
    is_nullable: bool = True
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    section: str
    model: type[models.Model]
    identity: tuple[str, ...]
    """The fields that identify a row; empty for the single row of the gateway settings."""
    order: tuple[str, ...]
    """The fields by which the rows of a document are sorted, in Python on every database."""
    fields: tuple[Field, ...]

    @property
    def references(self) -> tuple[str, ...]:
        """The fields that name a row of another table."""
        names = {field.name for field in self.model._meta.fields if field.is_relation}
        return tuple(field.name for field in self.fields if field.name in names)


_KINDS = {
    "BooleanField": Kind.BOOLEAN,
    "CharField": Kind.TEXT,
    "DateTimeField": Kind.TIME,
    "FloatField": Kind.NUMBER,
    "ForeignKey": Kind.TEXT,
    "IntegerField": Kind.INTEGER,
    "PositiveIntegerField": Kind.INTEGER,
    "SlugField": Kind.TEXT,
}


def _field(model: type[models.Model], name: str) -> Field:
    column: Any = model._meta.get_field(name)
    default = column.get_default()
    kind = _KINDS.get(column.get_internal_type())
    if kind is None:  # JSON
        kind = Kind.OBJECT if isinstance(default, dict) else Kind.LIST
    is_required = not (column.blank or column.has_default())
    return Field(name, kind, default, column.null, is_required)


def _fields(
    model: type[models.Model], names: Iterable[str], **replaced: Field
) -> tuple[Field, ...]:
    return tuple(replaced[name] if name in replaced else _field(model, name) for name in names)


GATEWAY = Table(
    "gateway",
    GatewaySettings,
    identity=(),
    order=(),
    fields=_fields(GatewaySettings, GATEWAY_FIELDS),
)
UPSTREAMS = Table(
    "upstreams",
    Upstream,
    identity=("name",),
    order=("name",),
    fields=_fields(Upstream, UPSTREAM_FIELDS, key_variable=Field("key", Kind.STORED_KEY)),
)
ROUTES = Table(
    "routes",
    ModelRoute,
    identity=("pattern",),
    order=("priority", "pattern"),
    fields=_fields(ModelRoute, ROUTE_FIELDS),
)
DEFINITIONS = Table(
    "definitions",
    FormatDefinition,
    identity=("name",),
    order=("name",),
    fields=_fields(
        FormatDefinition,
        DEFINITION_FIELDS,
        definition=Field("definition", Kind.OBJECT, is_nullable=False, is_required=True),
    ),
)
OVERRIDES = Table(
    "overrides",
    FormatOverride,
    identity=("pattern",),
    order=("priority", "pattern"),
    fields=_fields(FormatOverride, OVERRIDE_FIELDS),
)
FORMAT_SETTINGS = Table(
    "formats",
    FormatSettings,
    identity=("format",),
    order=("format",),
    fields=_fields(FormatSettings, ("format", *FORMAT_FIELDS)),
)
KEYS = Table(
    "keys",
    ClientKey,
    identity=("label", "prefix"),
    order=("label", "prefix"),
    fields=(
        *_fields(ClientKey, KEY_FIELDS[:1]),
        Field("prefix", Kind.TEXT),
        Field("key", Kind.KEY),
        *_fields(ClientKey, KEY_FIELDS[1:]),
        Field("revoked", Kind.BOOLEAN, default=False, is_nullable=False),
    ),
)

TABLES = (GATEWAY, UPSTREAMS, ROUTES, DEFINITIONS, OVERRIDES, FORMAT_SETTINGS, KEYS)
"""In the order of the document."""
