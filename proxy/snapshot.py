"""The configuration as one request sees it from start to end: immutable, and in memory.

`load` reads all of it in one transaction. Secrets are opened here, and are nowhere but in the
headers of an upstream. A row that came past the admin and cannot be understood is left out, and
named in the log: one of them must not stop all.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import httpx
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Model, QuerySet

from formats import FORMATS, Markers, Override
from proxy import models
from proxy.headers import carries_secret
from proxy.loop import VIA, own_name
from proxy.validators import (
    marker_pairs,
    validate_base_url,
    validate_headers,
    validate_markers,
    validate_patterns,
)
from proxy.vault import SecretUnreadable

_Row = TypeVar("_Row", bound=Model)
_Ranked = TypeVar("_Ranked", models.ModelRoute, models.FormatOverride)
_T = TypeVar("_T")

logger = logging.getLogger("athena.snapshot")

USER_AGENT = "athena"
_ANTHROPIC_VERSION = "2023-06-01"
_PATHS = {"anthropic": "/messages", "openai": "/chat/completions"}


@dataclass(frozen=True, slots=True)
class Upstream:
    name: str
    service: str
    dialect: str
    url: httpx.URL
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    #: What every request's body carries besides.
    fields: dict[str, object]
    connect_timeout: float
    first_byte_timeout: float
    idle_timeout: float
    #: Why it cannot be called, in a sentence for an operator.
    trouble: str = ""

    def secrets(self) -> list[str]:
        """What must not appear in anything that is shown or stored."""
        return [
            value.removeprefix("Bearer ") for name, value in self.headers if carries_secret(name)
        ]


@dataclass(frozen=True, slots=True)
class RouteRow:
    id: int
    pattern: str
    upstream: Upstream
    upstream_model: str
    listed_as: str
    max_tokens: int | None
    context_window: int | None
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
    """Which transcripts are kept."""

    capture_content: bool
    sample_others: float
    failures_per_hour: int
    transcript_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    version: int
    keys: dict[str, Key]
    """By digest; revoked ones are not there."""
    routes: tuple[RouteRow, ...]
    """In order of precedence."""
    default_route: RouteRow | None
    overrides: tuple[Override, ...]
    formats: dict[str, FormatRow]
    max_body_bytes: int
    open_after: float
    ping_after: float
    drain_time: float
    sampling: Sampling

    def secrets(self) -> set[str]:
        """Those of every upstream that a route leads to."""
        upstreams = (row.upstream for row in self.routes)
        return {secret for upstream in upstreams for secret in upstream.secrets()}


class NotBootstrapped(Exception):
    """The database has no configuration yet."""


def read_version() -> int:
    """The number of the newest version; raises NotBootstrapped."""
    number = models.ConfigurationVersion.objects.values_list("number", flat=True).first()
    if number is None:
        raise NotBootstrapped
    return number


@transaction.atomic
def load() -> Snapshot:
    version = read_version()
    gateway = models.GatewaySettings.objects.first()
    if gateway is None:
        raise NotBootstrapped
    active = models.Upstream.objects.filter(active=True)
    upstreams = dict(_understood(active, lambda row: (row.pk, read_upstream(row))))
    routes = models.ModelRoute.objects.filter(active=True, upstream__active=True)
    routes = routes.select_related("upstream")
    rows = _understood(
        _by_precedence(routes), lambda row: _route(row, upstreams, gateway.sample_calls)
    )
    overrides = models.FormatOverride.objects.filter(active=True)
    return Snapshot(
        version=version,
        keys=dict(_understood(models.ClientKey.objects.filter(revoked_at=None), _key)),
        routes=tuple(rows),
        default_route=next((row for row in rows if row.id == gateway.default_route_id), None),
        overrides=tuple(_understood(_by_precedence(overrides), _override)),
        formats=dict(_understood(models.FormatSettings.objects.all(), _format)),
        max_body_bytes=gateway.max_body_bytes,
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


def _by_precedence(rows: QuerySet[_Ranked]) -> list[_Ranked]:
    """The lowest priority first. Databases differ in how they sort texts; this must not."""
    return sorted(rows, key=lambda row: (row.priority, row.pattern))


def _understood(rows: Iterable[_Row], read: Callable[[_Row], _T]) -> list[_T]:
    """What `read` makes of the rows, without those that it cannot understand."""
    found: list[_T] = []
    for row in rows:
        try:
            found.append(read(row))
        except Exception:
            logger.exception("%s %s cannot be understood", type(row).__name__, row.pk)
    return found


def read_upstream(row: models.Upstream) -> Upstream:
    """An upstream as requests see it; raises ValidationError."""
    trouble = ""
    try:
        key = row.read_key().strip()
    except SecretUnreadable:
        key, trouble = "", "its stored key cannot be read with the present secret: enter it again"
    if row.key_variable and not key:
        trouble = f"the environment variable {row.key_variable} is not set"
    if not (key.isascii() and key.isprintable()):
        key, trouble = "", "its key has characters that no header can carry: enter it again"
    validate_base_url(row.base_url)
    validate_headers(row.headers)
    preferences = row.provider_preferences
    return Upstream(
        name=row.name,
        service=row.service,
        dialect=row.dialect,
        url=endpoint(row.base_url, _PATHS[row.dialect]),
        headers=(*_standard_headers(row.dialect, key), *row.headers.items()),
        fields={"provider": preferences} if preferences else {},
        connect_timeout=row.connect_timeout,
        first_byte_timeout=row.first_byte_timeout,
        idle_timeout=row.idle_timeout,
        trouble=trouble,
    )


def _broken(row: models.Upstream) -> Upstream:
    """Stands for a row that cannot be understood: its routes must not lead elsewhere."""
    return Upstream(
        name=row.name,
        service=models.Service.OTHER,
        dialect="openai",
        url=httpx.URL(),
        headers=(),
        fields={},
        connect_timeout=1,
        first_byte_timeout=1,
        idle_timeout=1,
        trouble="its row in the database cannot be understood, and the log says why",
    )


def endpoint(base_url: str, path: str) -> httpx.URL:
    """The address of an endpoint, whether or not the base has a slash or the version."""
    base = httpx.URL(base_url.rstrip("/").removesuffix(path))
    version = "" if base.path.strip("/") else "/v1"
    return base.copy_with(path=base.path.rstrip("/") + version + path)


def _standard_headers(dialect: str, key: str) -> list[tuple[str, str]]:
    headers = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream, application/json"),
        ("accept-encoding", "identity"),  # an event must be readable as soon as it arrives
        ("user-agent", USER_AGENT),
        (VIA, own_name()),
    ]
    if dialect == "anthropic":
        headers.append(("anthropic-version", _ANTHROPIC_VERSION))
        return [*headers, ("x-api-key", key)] if key else headers
    return [*headers, ("authorization", f"Bearer {key}")] if key else headers


def _route(row: models.ModelRoute, upstreams: dict[int, Upstream], sample_calls: float) -> RouteRow:
    return RouteRow(
        id=row.pk,
        pattern=row.pattern.lower(),
        upstream=upstreams.get(row.upstream_id) or _broken(row.upstream),
        upstream_model=row.upstream_model,
        listed_as=row.listed_as,
        max_tokens=row.max_tokens,
        context_window=row.context_window,
        reasoning=row.reasoning,
        parallel_calls=row.parallel_calls,
        sample_calls=sample_calls if row.sample_calls is None else row.sample_calls,
        fallback_id=row.fallback_id,
    )


def _key(row: models.ClientKey) -> tuple[str, Key]:
    validate_patterns(row.allowed_models)
    return row.digest, Key(
        id=row.pk,
        label=row.label,
        allowed_models=tuple(row.allowed_models),
        expires_at=row.expires_at,
        capture_content=row.capture_content,
        requests_per_minute=row.requests_per_minute,
        max_streams=row.max_streams,
    )


def _override(row: models.FormatOverride) -> Override:
    if row.format not in FORMATS:
        raise ValidationError(f"there is no format {row.format!r}")
    return Override(row.pattern, row.format)


def _format(row: models.FormatSettings) -> tuple[str, FormatRow]:
    if row.markers != {}:
        validate_markers(row.format, row.markers)
    markers = marker_pairs(row.markers)
    return row.format, FormatRow(row.buffer_limit, row.strict, markers, row.context_warning)
