"""Previews which models a configuration change would affect.

The change is saved in a transaction, the snapshot is loaded as a process would load it, every known
model is resolved, and the transaction is rolled back. There is no second implementation of routing
that could give another answer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Sum

from proxy.configuration.editing import editing
from proxy.configuration.explain import explain_format
from proxy.configuration.routing import bare_name, listed_models, resolve
from proxy.configuration.snapshot import Snapshot, load
from proxy.errors import GatewayError
from proxy.models import Facet, FormatOverride, ModelRoute, Span, TrafficSum

_RECENT = timedelta(days=7)
_MAX_NAMES = 200
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """The upstream and the format of a model name; empty strings if no route matches."""

    upstream: str
    model: str
    format: str
    pattern: str
    """The pattern of the route."""
    format_origin: str = field(default="", compare=False)
    """The reason for the format. A change of the reason alone is not an effect."""

    def __str__(self) -> str:
        if not self.upstream:
            return "no route"
        return f"{self.upstream}: {self.model} as {self.format}"


@dataclass(frozen=True, slots=True)
class Effect:
    """A model that is routed or decoded differently after a change."""

    model: str
    before: ResolvedModel
    after: ResolvedModel

    @property
    def changes_format(self) -> bool:
        formats = {self.before.format, self.after.format}
        return len(formats) == 2 and "" not in formats

    @property
    def is_pattern(self) -> bool:
        """The effect is on the names that match `model`, not on a name itself."""
        return bool(set(self.model) & _WILDCARDS)

    @property
    def is_refused(self) -> bool:
        return not self.after.upstream


def effects_of(change: Callable[[], None], now: datetime) -> list[Effect]:
    """The known models that `change` would affect; the change itself is rolled back."""
    # The lock keeps out other edits, which would show up as effects of this change.
    with editing(dry_run=True):
        before, names = load(), [*known_models(now), *_patterns()]
        change()
        after, names = load(), [*names, *known_models(now), *_patterns()]
    return effects(before, after, names)


def effects(before: Snapshot, after: Snapshot, names: Iterable[str]) -> list[Effect]:
    resolved = (
        Effect(name, resolved_model(before, name), resolved_model(after, name))
        for name in dict.fromkeys(names)
    )
    return [effect for effect in resolved if effect.before != effect.after]


def resolved_model(snapshot: Snapshot, name: str) -> ResolvedModel:
    try:
        route = resolve(snapshot, name)
    except GatewayError:
        return ResolvedModel("", "", "", "")
    return ResolvedModel(
        route.upstream.name,
        route.model,
        route.format.format,
        route.pattern,
        explain_format(snapshot, route, bare_name(name)),
    )


def _patterns() -> list[str]:
    """The patterns of routes and overrides: a pattern matches itself, and stands for its names."""
    rows = (
        model.objects.values_list("pattern", flat=True) for model in (ModelRoute, FormatOverride)
    )
    return [pattern for patterns in rows for pattern in patterns if "[" not in pattern]


def known_models(now: datetime) -> list[str]:
    """Model names that are listed, configured, or were used in the last days."""
    names: dict[str, None] = dict.fromkeys(listed_models(load()))
    routes = ModelRoute.objects.values_list("pattern", "upstream_model", "listed_as")
    for texts in (*routes, *FormatOverride.objects.values_list("pattern")):
        names.update({text: None for text in texts if text and not set(text) & _WILDCARDS})
    used = (
        TrafficSum.objects.filter(span=Span.DAY, facet=Facet.MODEL, start__gte=now - _RECENT)
        .values_list("value", flat=True)
        # A name that only ever failed is probably a typo.
        .annotate(times=Sum("requests") - Sum("failures") - Sum("client_errors"))
        .filter(times__gt=0)
        .order_by("-times")
    )
    names.update(dict.fromkeys(used[:_MAX_NAMES]))
    return [name for name in names if name]
