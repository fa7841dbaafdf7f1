"""An immutable copy of the configuration in memory; a request uses one from start to end.

`load` reads all tables in one transaction. A row that was written around the admin and is not valid
is skipped and logged, so that it does not stop the others.
"""

import logging
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import Model
from django.db.models.functions import Now

from formats import (
    FORMATS,
    STANDARD,
    Definition,
    Limits,
    Markers,
    Override,
    SplitThinking,
    defined_format,
)
from proxy import models
from proxy.configuration.patterns import PatternIndex
from proxy.configuration.upstream import Upstream, invalid_upstream, read_upstream
from proxy.database.clock import clock
from proxy.http.request_limits import RequestLimits
from proxy.validators import (
    checked_definition,
    marker_pairs,
    validate_markers,
    validate_patterns,
)

if TYPE_CHECKING:
    from proxy.configuration.routing import Route

_Row = TypeVar("_Row", bound=Model)
_Ranked = TypeVar("_Ranked", models.ModelRoute, models.FormatOverride)
_T = TypeVar("_T")

logger = logging.getLogger("athena.snapshot")


@dataclass(frozen=True, slots=True)
class RouteRow:
    id: int
    pattern: str
    upstream: Upstream
    upstream_model: str
    listed_as: str
    max_tokens: int | None
    context_window: int | None
    thinking_tokens: int | None
    reasoning: str
    parallel_calls: bool
    sample_calls: float
    fallback_id: int | None


@dataclass(frozen=True, slots=True)
class FormatRow:
    buffer_limit: int | None = None
    strict: bool = False
    markers: Markers = ()
    context_warning: int | None = None
    split_thinking: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    id: int
    label: str
    allowed_models: tuple[str, ...]
    expires_at: datetime | None
    capture_content: bool
    requests_per_minute: int | None = None
    max_streams: int | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """The rules for which transcripts are stored."""

    capture_content: bool
    sample_others: float
    failures_per_hour: int
    transcript_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    version: int
    keys: dict[str, Key]
    """By digest, without revoked keys."""
    routes: tuple[RouteRow, ...]
    """In order of precedence."""
    default_route: RouteRow | None
    overrides: tuple[Override, ...]
    unknown_format: str
    """The format of models whose name says nothing about it."""
    definitions: dict[str, Definition]
    """The formats that operators have defined, by name, in alphabetical order."""
    formats: dict[str, FormatRow]
    request_limits: RequestLimits
    """Limits of requests."""
    limits: Limits
    """Limits of upstream answers."""
    open_after: float
    ping_after: float
    drain_time: float
    sampling: Sampling
    resolved: "dict[str, Route]" = field(
        init=False, default_factory=dict, repr=False, compare=False
    )
    """A cache of `routing.resolve`, by requested name; `routing` limits its size."""
    model_names: frozenset[str] = field(init=False, default=frozenset(), repr=False, compare=False)
    """All model names and patterns in the routes."""
    route_patterns: PatternIndex = field(init=False, repr=False, compare=False)
    """In lower case, in the order of `routes`."""
    override_patterns: PatternIndex = field(init=False, repr=False, compare=False)
    """In lower case, in the order of `overrides`."""

    def __post_init__(self) -> None:
        names = [(row.upstream_model, row.listed_as, row.pattern) for row in self.routes]
        object.__setattr__(self, "model_names", frozenset(chain.from_iterable(names)))
        # Prepared here, in the thread that loads.
        routes = PatternIndex(row.pattern.lower() for row in self.routes)
        overrides = PatternIndex(override.pattern.lower() for override in self.overrides)
        object.__setattr__(self, "route_patterns", routes)
        object.__setattr__(self, "override_patterns", overrides)

    def has_format(self, name: str) -> bool:
        return name in FORMATS or name in self.definitions

    def secrets(self) -> set[str]:
        """The secrets of every upstream that a route uses."""
        upstreams = (row.upstream for row in self.routes)
        return {secret for upstream in upstreams for secret in upstream.secrets()}


class NotBootstrapped(Exception):
    """The database has no configuration yet."""


def read_version() -> int:
    """The newest configuration version; raises NotBootstrapped.

    A restored backup may have a lower version, so callers reload on any difference.
    """
    asked_at = datetime.now(UTC)
    rows = models.ConfigurationVersion.objects.annotate(now=Now())
    row: tuple[int, datetime] | None = rows.values_list("number", "now").first()
    if row is None:
        raise NotBootstrapped
    number, now = row
    clock.compare(now, asked_at=asked_at)
    return number


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of which a snapshot is made, all of one version."""

    version: int
    gateway: models.GatewaySettings
    upstreams: list[models.Upstream]
    routes: list[models.ModelRoute]
    overrides: list[models.FormatOverride]
    keys: list[models.ClientKey]
    definitions: list[models.FormatDefinition]
    formats: list[models.FormatSettings]


def load() -> Snapshot:
    return snapshot_of(read_rows())


@transaction.atomic
def read_rows() -> Rows:
    if connection.vendor == "postgresql" and not connection.savepoint_ids:
        # Otherwise each query would see later commits, and the tables might not match.
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    version = read_version()
    gateway = models.GatewaySettings.objects.first()
    if gateway is None:
        raise NotBootstrapped
    routes = models.ModelRoute.objects.filter(active=True, upstream__active=True)
    return Rows(
        version=version,
        gateway=gateway,
        upstreams=[*models.Upstream.objects.filter(active=True)],
        routes=[*routes.select_related("upstream")],
        overrides=[*models.FormatOverride.objects.filter(active=True)],
        keys=[*models.ClientKey.objects.filter(revoked_at=None)],
        definitions=[*models.FormatDefinition.objects.filter(active=True)],
        formats=[*models.FormatSettings.objects.all()],
    )


def snapshot_of(rows: Rows) -> Snapshot:
    gateway = rows.gateway
    upstreams = dict(_valid_rows(rows.upstreams, lambda row: (row.pk, read_upstream(row))))
    routes = _valid_rows(
        _by_precedence(rows.routes), lambda row: _route(row, upstreams, gateway.sample_calls)
    )
    definitions = dict(sorted(_valid_rows(rows.definitions, _definition)))
    formats = dict(_valid_rows(rows.formats, _format))
    for name, definition in definitions.items():  # prepared here, in the thread that loads
        split = formats.get(name, FormatRow()).split_thinking
        defined_format(definition.text, (), SplitThinking(split) if split else None)
    return Snapshot(
        version=rows.version,
        keys=dict(_valid_rows(rows.keys, lambda row: _key(row, gateway))),
        routes=tuple(routes),
        default_route=next((row for row in routes if row.id == gateway.default_route_id), None),
        overrides=tuple(
            _valid_rows(_by_precedence(rows.overrides), lambda row: _override(row, definitions))
        ),
        definitions=definitions,
        unknown_format=_unknown_format(gateway),
        formats=formats,
        request_limits=RequestLimits.from_settings(gateway),
        limits=Limits(
            line_bytes=gateway.max_line_bytes,
            event_bytes=gateway.max_event_bytes,
            answer_bytes=gateway.max_answer_bytes,
        ),
        open_after=gateway.open_after,
        ping_after=gateway.ping_after,
        drain_time=gateway.drain_time,
        sampling=Sampling(
            gateway.capture_content,
            gateway.sample_others,
            gateway.failures_per_hour,
            gateway.transcript_bytes,
        ),
    )


def _by_precedence(rows: Iterable[_Ranked]) -> list[_Ranked]:
    """The lowest priority first. Sorted here, because databases sort text differently."""
    return sorted(rows, key=lambda row: (row.priority, row.pattern))


def _valid_rows(rows: Iterable[_Row], read: Callable[[_Row], _T]) -> list[_T]:
    """The results of `read`, without the rows that it fails for."""
    results: list[_T] = []
    for row in rows:
        try:
            results.append(read(row))
        except Exception:
            logger.exception("%s %s is not valid and is ignored", type(row).__name__, row.pk)
    return results


def _route(row: models.ModelRoute, upstreams: dict[int, Upstream], sample_calls: float) -> RouteRow:
    return RouteRow(
        id=row.pk,
        pattern=row.pattern.lower(),
        upstream=upstreams.get(row.upstream_id) or invalid_upstream(row.upstream),
        upstream_model=row.upstream_model,
        listed_as=row.listed_as,
        max_tokens=row.max_tokens,
        context_window=row.context_window,
        thinking_tokens=row.thinking_tokens,
        reasoning=row.reasoning,
        parallel_calls=row.parallel_calls,
        sample_calls=sample_calls if row.sample_calls is None else row.sample_calls,
        fallback_id=row.fallback_id,
    )


def _key(row: models.ClientKey, gateway: models.GatewaySettings) -> tuple[str, Key]:
    validate_patterns(row.allowed_models)
    return row.digest, Key(
        id=row.pk,
        label=row.label,
        allowed_models=tuple(row.allowed_models),
        expires_at=row.expires_at,
        capture_content=row.capture_content,
        requests_per_minute=_own_or_default(
            row.requests_per_minute, gateway.key_requests_per_minute
        ),
        max_streams=_own_or_default(row.max_streams, gateway.key_max_streams),
    )


def _own_or_default(own: int | None, default: int | None) -> int | None:
    return default if own is None else own


def _definition(row: models.FormatDefinition) -> tuple[str, Definition]:
    return row.name, checked_definition(row.definition)


def _override(row: models.FormatOverride, definitions: Container[str]) -> Override:
    if row.format not in FORMATS and row.format not in definitions:
        raise ValidationError(f"the format {row.format!r} does not exist or is not active")
    return Override(row.pattern, row.format)


def _unknown_format(row: models.GatewaySettings) -> str:
    if row.unknown_format in FORMATS:
        return row.unknown_format
    logger.error("the format %r of unknown models does not exist", row.unknown_format)
    return STANDARD


def _format(row: models.FormatSettings) -> tuple[str, FormatRow]:
    if row.markers != {}:
        validate_markers(row.format, row.markers)
    markers = marker_pairs(row.markers)
    split_thinking = None if row.split_thinking is None else SplitThinking(row.split_thinking).value
    return row.format, FormatRow(
        row.buffer_limit, row.strict, markers, row.context_warning, split_thinking
    )
