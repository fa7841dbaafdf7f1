"""Explains how a model name is resolved: each value that applies, and the row it comes from.

`proxy.configuration.routing` decides; this module states the reasons for an operator and links the
rows to edit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Model

from formats import STANDARD, Override, answers_structured
from proxy.configuration.routing import (
    Route,
    bare_name,
    detecting_definitions,
    fallback,
    matching_overrides,
    matching_routes,
    resolve,
)
from proxy.configuration.snapshot import Snapshot
from proxy.errors import GatewayError
from proxy.models import (
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    GatewaySettings,
    ModelRoute,
    Upstream,
)
from proxy.models.formats import SPLIT_THINKING

_MAX_FALLBACKS = 10


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str
    origin: str
    """The reason for the value."""
    row: Model | None = None
    """The row to edit to change the value."""


@dataclass(frozen=True, slots=True)
class Explanation:
    requested: str
    route: Route | None
    trouble: str
    """The reason why there is no route, or why its upstream cannot be called; or empty."""
    facts: list[Fact]
    overruled: list[Fact]
    """Routes and overrides that also match, with a lower precedence."""


def explain(snapshot: Snapshot, requested: str) -> Explanation:
    try:
        route = resolve(snapshot, requested)
    except GatewayError as error:
        return Explanation(requested, None, str(error), [], [])
    trouble = route.upstream.trouble
    if trouble:
        trouble = f"the upstream {route.upstream.name} cannot be used: {trouble}"
    name = bare_name(requested)
    facts = [*_route_facts(snapshot, route, name), *_format_facts(snapshot, route, name)]
    facts += _limit_facts(route)
    return Explanation(requested, route, trouble, facts, [*_overruled(snapshot, route, name)])


def _route_facts(snapshot: Snapshot, route: Route, name: str) -> Iterator[Fact]:
    row = ModelRoute.objects.filter(pk=route.id).first()
    if any(matching_routes(snapshot, name)):
        priority = f", with priority {row.priority}" if row else ""
        yield Fact("route", route.pattern, f"the first route that matches{priority}", row)
    else:
        yield Fact("route", route.pattern, "the default route, because no other route matches", row)
    upstream = Upstream.objects.filter(name=route.upstream.name).first()
    yield Fact("upstream", route.upstream.name, "set in the route", row)
    yield Fact("dialect", route.upstream.dialect, "set in the upstream", upstream)
    if row is not None and route.model == row.upstream_model != name:
        yield Fact("upstream's model", route.model, "set in the route", row)
    else:
        yield Fact("upstream's model", route.model, "the name that the client sent", row)
    step, seen = fallback(snapshot, route, name), {route.id}
    while step is not None and step.id not in seen and len(seen) < _MAX_FALLBACKS:
        seen.add(step.id)
        other = ModelRoute.objects.filter(pk=step.id).first()
        yield Fact("fallback", f"{step.upstream.name}: {step.model}", "set in the route", other)
        step = fallback(snapshot, step, name)


def explain_format(snapshot: Snapshot, route: Route, name: str) -> str:
    """The reason for the format of a route. `name`: the bare name that was requested."""
    format_name, reason = route.format
    if reason == "override":
        return f"the override {_winning_override(snapshot, route, name).pattern}"
    if reason == "definition":
        return f"a detection pattern of the format {format_name}"
    if reason == "detection":
        return "detected from the model's name"
    if answers_structured(route.model):
        return "models with this name answer with structured calls only"
    why = "the name says nothing about the format"
    if format_name == STANDARD:
        return f"{why}, and the gateway settings say {STANDARD}"
    return f"{why}: read as {format_name}"


def _format_row(snapshot: Snapshot, route: Route, name: str) -> Model | None:
    """The row to edit for another format; None if only a new override would change it."""
    if route.format.reason == "override":
        winner = _winning_override(snapshot, route, name)
        return FormatOverride.objects.filter(pattern=winner.pattern).first()
    if route.format.reason == "definition":
        return FormatDefinition.objects.filter(name=route.format.format).first()
    if route.format.reason == "default" and not answers_structured(route.model):
        return GatewaySettings.objects.first()
    return None


def _winning_override(snapshot: Snapshot, route: Route, name: str) -> Override:
    return next(matching_overrides(snapshot, route.model, requested=name))


def _format_facts(snapshot: Snapshot, route: Route, name: str) -> Iterator[Fact]:
    row = _format_row(snapshot, route, name)
    yield Fact("format", route.format.format, explain_format(snapshot, route, name), row)
    settings = FormatSettings.objects.filter(format=route.format.format).first()
    origin = f"the settings of {route.format.format}"
    yield Fact("buffer limit", f"{route.limits.held_chars:,} characters", origin, settings)
    unclosed = "is an error" if route.strict else "is accepted if its calls are complete"
    yield Fact("unclosed section", unclosed, origin, settings)
    if route.split_thinking is not None:
        label = dict(SPLIT_THINKING)[route.split_thinking]
        yield Fact("thinking split off the text", label, origin, settings)
    if route.markers:
        spellings = ", ".join(f"{role} {text}" for role, text in route.markers)
        yield Fact("additional spellings of tokens", spellings, origin, settings)
    if route.context_warning is not None:
        threshold = f"above {route.context_warning:,} bytes"
        yield Fact("notice for large requests", threshold, origin, settings)


def _limit_facts(route: Route) -> Iterator[Fact]:
    row = ModelRoute.objects.select_related("upstream").filter(pk=route.id).first()
    limit = route.target.max_tokens
    tokens = f"at most {limit:,}" if limit else "as the client requests"
    yield Fact("output tokens", tokens, _limit_origin(limit), row)
    window = route.context_window
    size = f"{window:,} tokens" if window else "unknown"
    yield Fact("context window", size, _limit_origin(window), row)
    thinking = route.target.thinking_tokens
    room = f"cannot be stopped: {thinking:,} tokens of room" if thinking else "can be stopped"
    yield Fact("thinking", room, _limit_origin(thinking), row)
    parallel = "yes" if route.parallel_calls else "no, one at a time"
    yield Fact("parallel tool calls", parallel, "set in the route", row)
    field = route.target.reasoning_field or "not sent"
    is_derived = row is not None and row.reasoning == "auto"
    why = "required by the service and the format" if is_derived else "set in the route"
    yield Fact("earlier reasoning sent as", field, why, row)
    upstream, timeouts = row.upstream if row else None, route.upstream
    for label, seconds in (
        ("connect timeout", timeouts.connect_timeout),
        ("first byte timeout", timeouts.first_byte_timeout),
        ("idle timeout", timeouts.idle_timeout),
        ("progress timeout", timeouts.progress_timeout),
        ("total timeout", timeouts.total_timeout),
    ):
        yield Fact(label, f"{seconds:g} s", "set in the upstream", upstream)
    is_set = row is not None and row.sample_calls is not None
    origin = "set in the route" if is_set else "the gateway's settings"
    source = row if is_set else GatewaySettings.objects.first()
    yield Fact("stored transcripts of calls", f"{route.sample_calls:.0%}", origin, source)


def _overruled(snapshot: Snapshot, route: Route, name: str) -> Iterator[Fact]:
    for later in list(matching_routes(snapshot, name))[1:]:
        row = ModelRoute.objects.filter(pk=later.id).first()
        yield Fact("route", later.pattern, f"would use the upstream {later.upstream.name}", row)
    overrides = dict.fromkeys(matching_overrides(snapshot, route.model, requested=name))
    if route.format.reason in ("override", "definition"):
        for other in detecting_definitions(snapshot, route.model):
            if other == route.format.format:
                continue
            definition_row = FormatDefinition.objects.filter(name=other).first()
            origin = f"would use the format {other}"
            yield Fact("detection pattern", other, origin, definition_row)
    for override in list(overrides)[1:]:
        override_row = FormatOverride.objects.filter(pattern=override.pattern).first()
        yield Fact(
            "override", override.pattern, f"would use the format {override.format}", override_row
        )


def _limit_origin(value: int | None) -> str:
    return "set in the route" if value else "not limited by the route"
