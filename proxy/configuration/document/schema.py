"""The sections of a document: which fields of which tables, what kind, and their defaults.

A field that is not listed here is not exported, so that a secret cannot slip into a document. Rows
are known by what people call them, never by number: a name, a pattern, a label.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from django.db import models

from proxy.models import (
    ClientKey,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)

STORED = "stored"
"""Stands for a secret that the gateway keeps and the document does not show."""


class Kind(Enum):
    TEXT = "text"
    WHOLE = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    MOMENT = "a time such as 2027-01-31T12:00:00Z"
    LIST = "a list"
    OBJECT = "a mapping"
    KEY = "`$NAME`, the name of an environment variable"
    STORED_KEY = "`stored`, or `$NAME`, the name of an environment variable"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    default: Any = None
    """What it is where the document does not say."""
    is_nullable: bool = True
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    section: str
    model: type[models.Model]
    identity: tuple[str, ...]
    """The fields by which a row is known; of the one row of the gateway, none."""
    order: tuple[str, ...]
    """The fields that sort the rows of a document, in the order of Python on every database."""
    fields: tuple[Field, ...]

    @property
    def references(self) -> tuple[str, ...]:
        """The fields that name a row of another table."""
        names = {field.name for field in self.model._meta.fields if field.is_relation}
        return tuple(field.name for field in self.fields if field.name in names)


_KINDS = {
    "BooleanField": Kind.FLAG,
    "CharField": Kind.TEXT,
    "DateTimeField": Kind.MOMENT,
    "FloatField": Kind.NUMBER,
    "ForeignKey": Kind.TEXT,
    "IntegerField": Kind.WHOLE,
    "PositiveIntegerField": Kind.WHOLE,
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


def _fields(model: type[models.Model], names: str) -> tuple[Field, ...]:
    return tuple(_field(model, name) for name in names.split())


GATEWAY = Table(
    "gateway",
    GatewaySettings,
    identity=(),
    order=(),
    fields=_fields(
        GatewaySettings,
        "default_route max_body_bytes max_headers max_header_bytes max_json_depth max_json_nodes "
        "request_timeout stall_timeout max_streams key_max_streams key_requests_per_minute "
        "max_line_bytes max_event_bytes max_answer_bytes "
        "open_after ping_after drain_time capture_content "
        "sample_calls sample_others failures_per_hour transcript_bytes transcript_days "
        "exchange_days",
    ),
)
UPSTREAMS = Table(
    "upstreams",
    Upstream,
    identity=("name",),
    order=("name",),
    fields=(
        *_fields(Upstream, "name service dialect base_url"),
        Field("key", Kind.STORED_KEY),
        *_fields(
            Upstream,
            "headers provider_preferences connect_timeout first_byte_timeout idle_timeout "
            "progress_timeout total_timeout active",
        ),
    ),
)
ROUTES = Table(
    "routes",
    ModelRoute,
    identity=("pattern",),
    order=("priority", "pattern"),
    fields=_fields(
        ModelRoute,
        "pattern upstream upstream_model listed_as priority max_tokens context_window reasoning "
        "parallel_calls sample_calls fallback active",
    ),
)
OVERRIDES = Table(
    "overrides",
    FormatOverride,
    identity=("pattern",),
    order=("priority", "pattern"),
    fields=_fields(FormatOverride, "pattern format priority note active"),
)
FORMAT_SETTINGS = Table(
    "formats",
    FormatSettings,
    identity=("format",),
    order=("format",),
    fields=_fields(FormatSettings, "format buffer_limit strict markers context_warning"),
)
KEYS = Table(
    "keys",
    ClientKey,
    identity=("label", "prefix"),
    order=("label", "prefix"),
    fields=(
        *_fields(ClientKey, "label"),
        Field("prefix", Kind.TEXT),
        Field("key", Kind.KEY),
        *_fields(
            ClientKey,
            "owner allowed_models requests_per_minute max_streams capture_content expires_at",
        ),
        Field("revoked", Kind.FLAG, default=False, is_nullable=False),
    ),
)

TABLES = (GATEWAY, UPSTREAMS, ROUTES, OVERRIDES, FORMAT_SETTINGS, KEYS)
"""In the order of the document."""
