"""Explains which rule wins for a model name: every value that applies, and where it comes from.

`proxy.configuration.routing` decides; this module gives the reason in an operator's words and links
the rows that can be edited.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Model

from proxy.configuration.routing import (
    Route,
    bare_name,
    fallback,
    matching_overrides,
    matching_routes,
    resolve,
)
from proxy.configuration.snapshot import Snapshot
from proxy.errors import GatewayError
from proxy.models import FormatOverride, FormatSettings, GatewaySettings, ModelRoute, Upstream

_MOST_FALLBACKS = 10


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str
    origin: str
    """Why it is so."""
    row: Model | None = None
    """The row that says so, if one does."""


@dataclass(frozen=True, slots=True)
class Explanation:
    requested: str
    route: Route | None
    trouble: str
    """Why there is no route, or why its upstream cannot be asked."""
    facts: list[Fact]
    beaten: list[Fact]
    """Rules that match as well, and come later."""


def explain(snapshot: Snapshot, requested: str) -> Explanation:
    try:
        route = resolve(snapshot, requested)
    except GatewayError as error:
        return Explanation(requested, None, str(error), [], [])
    trouble = route.upstream.trouble
    if trouble:
        trouble = f"the upstream {route.upstream.name} cannot be used: {trouble}"
    name = bare_name(requested)
    facts = [*_way(snapshot, route, name), *_reading(snapshot, route, name), *_limits(route)]
    return Explanation(requested, route, trouble, facts, [*_beaten(snapshot, route, name)])


def _way(snapshot: Snapshot, route: Route, name: str) -> Iterator[Fact]:
    row = ModelRoute.objects.filter(pk=route.id).first()
    if any(matching_routes(snapshot, name)):
        rank = f", at priority {row.priority}" if row else ""
        yield Fact("route", route.pattern, f"the first whose pattern matches{rank}", row)
    else:
        yield Fact("route", route.pattern, "the default route, as no pattern matches", row)
    upstream = Upstream.objects.filter(name=route.upstream.name).first()
    yield Fact("upstream", route.upstream.name, "the route leads there", row)
    yield Fact("dialect", route.upstream.dialect, "the upstream speaks it", upstream)
    if row is not None and route.model == row.upstream_model != name:
        yield Fact("upstream's model", route.model, "the route names it", row)
    else:
        yield Fact("upstream's model", route.model, "the client's own name for it", row)
    step, seen = fallback(snapshot, route, name), {route.id}
    while step is not None and step.id not in seen and len(seen) < _MOST_FALLBACKS:
        seen.add(step.id)
        other = ModelRoute.objects.filter(pk=step.id).first()
        yield Fact(
            "falls back to", f"{step.upstream.name}: {step.model}", "the route says so", other
        )
        step = fallback(snapshot, step, name)


def _reading(snapshot: Snapshot, route: Route, name: str) -> Iterator[Fact]:
    reason, row = "nothing in its name tells another", None
    if route.format.reason == "override":
        winner = next(matching_overrides(snapshot, route.model, requested=name))
        row = FormatOverride.objects.filter(pattern=winner.pattern).first()
        reason = f"the override of {winner.pattern}"
    elif route.format.reason == "detection":
        reason = "its name tells"
    yield Fact("format", route.format.format, reason, row)
    settings = FormatSettings.objects.filter(format=route.format.format).first()
    origin = f"the settings of {route.format.format}"
    yield Fact("held back at most", f"{route.limits.held_chars:,} characters", origin, settings)
    yield Fact("a section left open", _refused(route.strict), origin, settings)
    if route.markers:
        spellings = ", ".join(f"{role} {text}" for role, text in route.markers)
        yield Fact("more spellings of tokens", spellings, origin, settings)
    if route.context_warning is not None:
        warned = f"beyond {route.context_warning:,} bytes"
        yield Fact("notice of a large request", warned, origin, settings)


def _limits(route: Route) -> Iterator[Fact]:
    row = ModelRoute.objects.select_related("upstream").filter(pk=route.id).first()
    most = route.target.max_tokens
    yield Fact(
        "output tokens", f"at most {most:,}" if most else "as the client asks", _said(most), row
    )
    window = route.context_window
    shown = f"{window:,} tokens" if window else "as the upstream says"
    yield Fact("context window", shown, _said(window), row)
    several = "yes" if route.parallel_calls else "no: one at a time"
    yield Fact("several calls in one answer", several, "the route says so", row)
    field = route.target.reasoning_field or "left out"
    is_derived = row is not None and row.reasoning == "auto"
    why = "the service and the format need it so" if is_derived else "the route says so"
    yield Fact("earlier reasoning goes back", field, why, row)
    upstream, times = row.upstream if row else None, route.upstream
    for label, seconds in (
        ("time to connect", times.connect_timeout),
        ("time to the first byte", times.first_byte_timeout),
        ("silence within an answer", times.idle_timeout),
        ("nothing but pings within it", times.progress_timeout),
        ("time for all of it", times.total_timeout),
    ):
        yield Fact(label, f"{seconds:g} s", "the upstream's settings", upstream)
    is_own = row is not None and row.sample_calls is not None
    origin = "the route says so" if is_own else "the gateway's settings"
    keeper = row if is_own else GatewaySettings.objects.first()
    yield Fact("transcripts of calls kept", f"{route.sample_calls:.0%}", origin, keeper)


def _beaten(snapshot: Snapshot, route: Route, name: str) -> Iterator[Fact]:
    for later in list(matching_routes(snapshot, name))[1:]:
        row = ModelRoute.objects.filter(pk=later.id).first()
        yield Fact("route", later.pattern, f"would lead to {later.upstream.name}", row)
    found = dict.fromkeys(matching_overrides(snapshot, route.model, requested=name))
    for override in list(found)[1:]:
        row_of = FormatOverride.objects.filter(pattern=override.pattern).first()
        yield Fact("override", override.pattern, f"would read it as {override.format}", row_of)


def _refused(strict: bool) -> str:
    return "is an error" if strict else "is taken if its calls are complete"


def _said(value: int | None) -> str:
    return "the route says so" if value else "no rule limits it"
