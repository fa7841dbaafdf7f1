"""What is wrong with the present configuration, in sentences; no upstream is asked.

Rows are judged as a form would judge them, and the rest by the snapshot that processes load. What
only looks forgotten is a hint. `manage.py doctor` asks the upstreams too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from django.conf import settings
from django.core.exceptions import ValidationError

from formats import FORMATS
from proxy.configuration.preview import known_models
from proxy.configuration.snapshot import NotBootstrapped, Snapshot, load
from proxy.configuration.upstream import Upstream
from proxy.models import (
    CONFIGURATION,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
)
from proxy.security.egress import EgressPolicy, ForbiddenAddress


@dataclass(frozen=True, slots=True)
class Finding:
    message: str
    is_wrong: bool = True
    """Otherwise it is a hint."""


def findings(now: datetime) -> list[Finding]:
    try:
        snapshot = load()
    except NotBootstrapped:
        return [Finding("There is no configuration yet: start the gateway once.")]
    return [
        *_rows(),
        *_troubles(snapshot),
        *_routes(snapshot),
        *_default(snapshot),
        *exposures(snapshot),
        *_idle(now),
        *([] if snapshot.keys else [Finding("No client key is valid: nobody can call.", False)]),
    ]


def _rows() -> Iterator[Finding]:
    for model in CONFIGURATION:
        for row in model._default_manager.all():
            if isinstance(row, FormatSettings) and row.format not in FORMATS:
                continue  # it steers nothing, and nobody can delete it
            try:
                row.full_clean()
            except ValidationError as error:
                for name, messages in error.message_dict.items():
                    what = f"{model._meta.verbose_name} {row}: {name}: {' '.join(messages)}"
                    yield Finding(f"The {what}")


def _troubles(snapshot: Snapshot) -> Iterator[Finding]:
    called = {route.upstream.name: route.upstream for route in snapshot.routes}
    for name, upstream in called.items():
        if upstream.trouble:
            yield Finding(f"The upstream {name} cannot be called: {upstream.trouble}.")


def _routes(snapshot: Snapshot) -> Iterator[Finding]:
    live = {route.id for route in snapshot.routes}
    for row in ModelRoute.objects.filter(active=True).select_related("upstream", "fallback"):
        if not row.upstream.active:
            yield Finding(
                f"The route {row} is not used: its upstream {row.upstream} is not active."
            )
        if row.fallback is not None and row.fallback_id not in live:
            yield Finding(f"The route {row} falls back to {row.fallback}, which is not in use.")


def _default(snapshot: Snapshot) -> Iterator[Finding]:
    default = GatewaySettings.objects.select_related("default_route").get().default_route
    if default is None:
        yield Finding("There is no default route: names that no route matches get 404.")
    elif snapshot.default_route is None:
        yield Finding(f"The default route {default} is not in use: it or its upstream is inactive.")


def exposures(snapshot: Snapshot) -> Iterator[Finding]:
    """What is wrong in production, and elsewhere a hint: it is for others than its maker."""
    called = {route.upstream.name: route.upstream for route in snapshot.routes}
    for name, upstream in called.items():
        if upstream.url.scheme == "http" and upstream.secrets() and not _is_near(upstream):
            yield Finding(
                f"The upstream {name} gets its key over plain HTTP: use https://.",
                settings.PRODUCTION,
            )
    default = snapshot.default_route
    if settings.PRODUCTION and default is not None and default.upstream.name == "demo":
        yield Finding("The default route leads to the demo, which is no model: make another.")


def _is_near(upstream: Upstream) -> bool:
    """Whether nothing leaves this machine."""
    try:
        address = EgressPolicy.parse("all").check_literal(upstream.url.host, 80)
    except ForbiddenAddress:
        return False
    return upstream.url.host == "localhost" if address is None else address.is_loopback


def _idle(now: datetime) -> Iterator[Finding]:
    names = [name.lower() for name in known_models(now)]
    for row in FormatOverride.objects.filter(active=True):
        if not any(fnmatchcase(name, row.pattern.lower()) for name in names):
            yield Finding(f"No known model matches the override {row}.", False)
