"""Resolves a model name to its route and format. Only this module knows the precedence.

The first route whose pattern matches wins. If none does, a name with a slash goes unchanged to the
upstream of the default route, and any other name uses the default route. The format is set by an
override, else by the detection patterns of the operators' formats, else detected from the
upstream's name for the model. If that name says nothing, the gateway settings decide, except for
models that are known to answer with structured calls only. Overrides are matched against the
upstream's name first, then against the client's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from formats import (
    Detection,
    Limits,
    Markers,
    Override,
    Target,
    answers_structured,
    detect_format,
)
from proxy.configuration.snapshot import FormatRow, RouteRow, Snapshot
from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, GatewayError
from proxy.models import Reasoning, Service

_LONG_CONTEXT = "[1m]"
_MAX_CACHED = 500
"""Names whose routes a snapshot caches. Clients may send any name."""
_NATIVE_IDS: dict[str, Literal["kimi", "mistral"]] = {"kimi": "kimi", "mistral": "mistral"}
_NEEDS_REASONING = frozenset({"kimi", "deepseek"})
"""Formats whose models reject earlier tool calls without the reasoning before them."""


@dataclass(frozen=True, slots=True)
class Route:
    id: int
    pattern: str
    upstream: Upstream
    model: str
    """The upstream's name for the model."""
    format: Detection
    limits: Limits
    strict: bool
    markers: Markers
    split_thinking: str | None
    definition: str | None
    """The text of the format's definition, if an operator has defined it."""
    context_warning: int | None
    context_window: int | None
    parallel_calls: bool
    sample_calls: float
    target: Target
    fallback_id: int | None


def resolve(snapshot: Snapshot, requested: str) -> Route:
    """The route of a model name; raises GatewayError if there is none."""
    route = snapshot.resolved.get(requested)
    if route is None:
        route = _resolve(snapshot, requested)
        if len(snapshot.resolved) >= _MAX_CACHED:
            snapshot.resolved.clear()
        snapshot.resolved[requested] = route
    return route


def _resolve(snapshot: Snapshot, requested: str) -> Route:
    name = bare_name(requested)
    for row in matching_routes(snapshot, name):
        return _route(snapshot, row, name, row.upstream_model or name)
    default = snapshot.default_route
    if default is None:
        raise GatewayError(
            ErrorCode.MODEL_NOT_FOUND,
            f"no route to an active upstream matches the model {requested[:200]!r}, "
            "and there is no active default route",
        )
    model = name if "/" in name else default.upstream_model or name
    return _route(snapshot, default, name, model)


def bare_name(requested: str) -> str:
    """The model name without the suffix that Claude Code appends for its own use."""
    is_long = requested[-len(_LONG_CONTEXT) :].lower() == _LONG_CONTEXT  # it reads either case
    return requested[: -len(_LONG_CONTEXT)] if is_long else requested


def matching_routes(snapshot: Snapshot, name: str) -> Iterator[RouteRow]:
    """The routes whose pattern matches, in order of precedence. The first wins."""
    return (snapshot.routes[at] for at in snapshot.route_patterns.matching(name.lower()))


def matching_overrides(snapshot: Snapshot, model: str, *, requested: str) -> Iterator[Override]:
    """The overrides that match, in order of precedence; the upstream's name comes first."""
    for name in (model.lower(), requested.lower()):
        for at in snapshot.override_patterns.matching(name):
            yield snapshot.overrides[at]


def fallback(snapshot: Snapshot, route: Route, requested: str) -> Route | None:
    """The route to try after `route` failed before its first byte; None if there is none."""
    name = bare_name(requested)
    for row in snapshot.routes:
        if row.id == route.fallback_id:
            return _route(snapshot, row, name, row.upstream_model or name)
    return None


def format_of_model(snapshot: Snapshot, model: str, *, requested: str) -> Detection:
    """The format of a model that the upstream calls `model` and the client `requested`."""
    for override in matching_overrides(snapshot, model, requested=requested):
        return Detection(override.format, "override")
    for name in detecting_definitions(snapshot, model):
        return Detection(name, "definition")
    detected = detect_format(model)
    if detected.reason == "default" and not answers_structured(model):
        return Detection(snapshot.unknown_format, "default")
    return detected


def detecting_definitions(snapshot: Snapshot, model: str) -> Iterator[str]:
    """The operators' formats with a detection pattern for the upstream's model. The first wins."""
    return (name for name, defined in snapshot.definitions.items() if defined.detects(model))


def _route(snapshot: Snapshot, row: RouteRow, requested: str, model: str) -> Route:
    detected = format_of_model(snapshot, model, requested=requested)
    settings = snapshot.formats.get(detected.format, FormatRow())
    definition = snapshot.definitions.get(detected.format)
    limits = snapshot.limits
    if settings.buffer_limit is not None:
        limits = replace(limits, held_chars=settings.buffer_limit)
    upstream = row.upstream
    return Route(
        id=row.id,
        pattern=row.pattern,
        upstream=upstream,
        model=model,
        format=detected,
        limits=limits,
        strict=settings.strict,
        markers=settings.markers,
        split_thinking=settings.split_thinking,
        definition=definition.text if definition else None,
        context_warning=settings.context_warning,
        context_window=row.context_window,
        parallel_calls=row.parallel_calls,
        sample_calls=row.sample_calls,
        target=Target(
            model=model,
            native_ids=_NATIVE_IDS.get(detected.format),
            is_anthropic=upstream.service == Service.ANTHROPIC,
            reasoning_field=_reasoning_field(row, detected.format),
            keeps_reasoning=row.reasoning == Reasoning.AUTO
            and detected.format not in _NEEDS_REASONING,
            reasoning_request=_reasoning_request(row),
            max_tokens=row.max_tokens,
            thinking_tokens=row.thinking_tokens,
            fields=upstream.fields,
        ),
        fallback_id=row.fallback_id,
    )


def _reasoning_field(row: RouteRow, format_name: str) -> str | None:
    if row.reasoning == Reasoning.LEAVE_OUT:
        return None
    if row.reasoning != Reasoning.AUTO:
        return row.reasoning
    if row.upstream.service == Service.OPENROUTER:
        return Reasoning.OPENROUTER.value
    return Reasoning.CONTENT.value if format_name in _NEEDS_REASONING else None


def _reasoning_request(row: RouteRow) -> Literal["openrouter"] | None:
    return "openrouter" if row.upstream.service == Service.OPENROUTER else None


def listed_models(snapshot: Snapshot) -> list[str]:
    """The model names for /v1/models, in the order of the routes."""
    names: dict[str, None] = {}
    for row in snapshot.routes:
        # The pattern of the default route is not a model name.
        is_name = row is not snapshot.default_route and not set(row.pattern) & set("*?[")
        if row.listed_as or is_name:
            names[row.listed_as or row.pattern] = None
        if row.upstream_model:
            names[row.upstream_model] = None
    return [name for name in names if name]
