"""Finds errors in the current configuration, without calling any upstream.

Rows are validated as a form would validate them; the rest is checked in the snapshot that processes
load. Harmless oddities are hints. `manage.py doctor` also calls the upstreams.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ValidationError

from formats import FORMATS
from proxy.configuration.patterns import matches
from proxy.configuration.preview import known_models
from proxy.configuration.snapshot import NotBootstrapped, Snapshot, load
from proxy.configuration.upstream import Upstream
from proxy.models import (
    CONFIGURATION,
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
)
from proxy.security.egress import EgressPolicy, ForbiddenAddress


@dataclass(frozen=True, slots=True)
class Finding:
    message: str
    is_error: bool = True
    """An error; otherwise a hint."""


def diagnose(now: datetime) -> list[Finding]:
    try:
        snapshot = load()
    except NotBootstrapped:
        return [Finding("There is no configuration yet. Start the gateway once.")]
    return [
        *_invalid_rows(),
        *_unusable_upstreams(snapshot),
        *_unused_routes(snapshot),
        *_default_route(snapshot),
        *security_findings(snapshot),
        *_unused_overrides(now),
        *_missing_keys(snapshot),
    ]


def _invalid_rows() -> Iterator[Finding]:
    known = {*FORMATS, *FormatDefinition.objects.values_list("name", flat=True)}
    for model in CONFIGURATION:
        for row in model._default_manager.all():
            if isinstance(row, FormatSettings) and row.format not in known:
                continue  # the row of a removed format has no effect and cannot be deleted
            try:
                row.full_clean()
            except ValidationError as error:
                for name, messages in error.message_dict.items():
                    errors = f"{name}: {' '.join(messages)}"
                    yield Finding(f"The {model._meta.verbose_name} {row} is invalid: {errors}")


def _unusable_upstreams(snapshot: Snapshot) -> Iterator[Finding]:
    upstreams = {route.upstream.name: route.upstream for route in snapshot.routes}
    for name, upstream in upstreams.items():
        if upstream.trouble:
            yield Finding(f"The upstream {name} cannot be called: {upstream.trouble}.")


def _unused_routes(snapshot: Snapshot) -> Iterator[Finding]:
    active = {route.id for route in snapshot.routes}
    for row in ModelRoute.objects.filter(active=True).select_related("upstream", "fallback"):
        if not row.upstream.active:
            yield Finding(
                f"The route {row} is not used: its upstream {row.upstream} is not active."
            )
        if row.fallback is not None and row.fallback_id not in active:
            yield Finding(f"The route {row} falls back to {row.fallback}, which is not active.")


def _default_route(snapshot: Snapshot) -> Iterator[Finding]:
    default = GatewaySettings.objects.select_related("default_route").get().default_route
    if default is None:
        yield Finding("There is no default route: model names that match no route get 404.")
    elif snapshot.default_route is None:
        yield Finding(f"The default route {default} is not used: it or its upstream is not active.")


def security_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Findings that are errors in production and hints during development."""
    upstreams = {route.upstream.name: route.upstream for route in snapshot.routes}
    for name, upstream in upstreams.items():
        if (
            upstream.url.scheme == "http"
            and upstream.secrets()
            and not _is_on_this_machine(upstream)
        ):
            yield Finding(
                f"The upstream {name} receives its key over plain HTTP. Use https://.",
                settings.PRODUCTION,
            )
    default = snapshot.default_route
    if settings.PRODUCTION and default is not None and default.upstream.name == "demo":
        yield Finding(
            "The default route leads to the demo, which is not a model. Choose another route."
        )


def _is_on_this_machine(upstream: Upstream) -> bool:
    try:
        address = EgressPolicy.parse("all").check_literal(upstream.url.host, 80)
    except ForbiddenAddress:
        return False
    return upstream.url.host == "localhost" if address is None else address.is_loopback


def _unused_overrides(now: datetime) -> Iterator[Finding]:
    names = [name.lower() for name in known_models(now)]
    for row in FormatOverride.objects.filter(active=True):
        if not any(matches(name, row.pattern.lower()) for name in names):
            yield Finding(f"No known model matches the override {row}.", is_error=False)


def _missing_keys(snapshot: Snapshot) -> Iterator[Finding]:
    if not snapshot.keys:
        yield Finding("No client key is valid: every request is rejected.", is_error=False)
