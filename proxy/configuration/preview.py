"""What a change would do, found out by making it and taking it back.

Nothing of the configuration is computed a second way: the change is saved as it would be, the
snapshot is loaded as processes load it, every known model is resolved, and all is rolled back.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Sum

from proxy.configuration.routing import listed_models, resolve
from proxy.configuration.snapshot import Snapshot, load
from proxy.errors import GatewayError
from proxy.models import ConfigurationVersion, Facet, FormatOverride, ModelRoute, Span, TrafficSum

_RECENT = timedelta(days=7)
_MOST_NAMES = 200
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Treatment:
    """What is done for a model, as far as an operator cares."""

    upstream: str
    model: str
    format: str
    pattern: str
    """Of the route."""

    def __str__(self) -> str:
        if not self.upstream:
            return "no route"
        return f"{self.upstream}: {self.model} as {self.format}"


@dataclass(frozen=True, slots=True)
class Effect:
    """A model that is treated differently."""

    model: str
    before: Treatment
    after: Treatment

    @property
    def changes_format(self) -> bool:
        formats = {self.before.format, self.after.format}
        return len(formats) == 2 and "" not in formats

    @property
    def is_refused(self) -> bool:
        return not self.after.upstream


@contextmanager
def tentatively() -> Iterator[None]:
    """Whatever the block saves is taken back at its end."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def effects_of(change: Callable[[], None], now: datetime) -> list[Effect]:
    """Which known models `change` would treat differently. It saves rows, and is taken back."""
    with tentatively():
        ConfigurationVersion.lock()  # or what others save meanwhile would be taken for its effect
        before, names = load(), [*known_models(now), *_patterns()]
        change()
        after, names = load(), [*names, *known_models(now), *_patterns()]
    return effects(before, after, names)


def effects(before: Snapshot, after: Snapshot, names: Iterable[str]) -> list[Effect]:
    found = []
    for name in dict.fromkeys(names):
        old, new = treatment(before, name), treatment(after, name)
        if old != new:
            found.append(Effect(name, old, new))
    return found


def treatment(snapshot: Snapshot, name: str) -> Treatment:
    try:
        route = resolve(snapshot, name)
    except GatewayError:
        return Treatment("", "", "", "")
    return Treatment(route.upstream.name, route.model, route.format.format, route.pattern)


def _patterns() -> list[str]:
    """Each stands for the names that it matches, and is one of them itself."""
    rows = (
        model.objects.values_list("pattern", flat=True) for model in (ModelRoute, FormatOverride)
    )
    return [pattern for patterns in rows for pattern in patterns if "[" not in pattern]


def known_models(now: datetime) -> list[str]:
    """Names worth asking about: those that are offered, configured, or were asked for lately."""
    names: dict[str, None] = dict.fromkeys(listed_models(load()))
    routes = ModelRoute.objects.values_list("pattern", "upstream_model", "listed_as")
    for texts in (*routes, *FormatOverride.objects.values_list("pattern")):
        names.update({text: None for text in texts if text and not set(text) & _WILDCARDS})
    asked = (
        TrafficSum.objects.filter(span=Span.DAY, facet=Facet.MODEL, start__gte=now - _RECENT)
        .values_list("value", flat=True)
        # A slip of somebody's pen is no model.
        .annotate(times=Sum("requests") - Sum("failures") - Sum("client_errors"))
        .filter(times__gt=0)
        .order_by("-times")
    )
    names.update(dict.fromkeys(asked[:_MOST_NAMES]))
    return [name for name in names if name]
