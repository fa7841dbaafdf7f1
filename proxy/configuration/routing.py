"""A model's name → what to do for it. The only place that knows precedence.

A route's pattern decides; without one, a name with a slash goes to the default route's upstream
unchanged, and any other name is the default route's. The format follows: override, detection,
standard. Overrides are matched against the upstream's name for the model, and the client's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from formats import Detection, Limits, Markers, Override, Target, detect_format
from proxy.configuration.snapshot import FormatRow, RouteRow, Snapshot
from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, GatewayError
from proxy.models import Reasoning, Service

_LONG_CONTEXT = "[1m]"
_REMEMBERED = 500
"""Names whose routes a snapshot remembers: clients may ask for any."""
_REASONS_BACK = frozenset({"kimi", "deepseek"})
"""Formats whose models refuse a call in the history without the reasoning before it."""


@dataclass(frozen=True, slots=True)
class Route:
    id: int
    pattern: str
    upstream: Upstream
    model: str
    """The upstream's name for it."""
    format: Detection
    limits: Limits
    strict: bool
    markers: Markers
    context_warning: int | None
    context_window: int | None
    parallel_calls: bool
    sample_calls: float
    target: Target
    fallback_id: int | None


def resolve(snapshot: Snapshot, requested: str) -> Route:
    """The route of a model's name; raises GatewayError when there is none."""
    route = snapshot.resolved.get(requested)
    if route is None:
        route = _resolve(snapshot, requested)
        if len(snapshot.resolved) >= _REMEMBERED:
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
            "and the default route leads to none",
        )
    model = name if "/" in name else default.upstream_model or name
    return _route(snapshot, default, name, model)


def bare_name(requested: str) -> str:
    """A model's name without what Claude Code appends to it for its own use."""
    return requested.removesuffix(_LONG_CONTEXT)


def matching_routes(snapshot: Snapshot, name: str) -> Iterator[RouteRow]:
    """The routes whose pattern matches, in order of precedence: the first one wins."""
    folded = name.lower()
    return (row for row in snapshot.routes if fnmatchcase(folded, row.pattern))


def matching_overrides(snapshot: Snapshot, model: str, *, requested: str) -> Iterator[Override]:
    """The overrides that match, in order of precedence: the upstream's name goes before ours."""
    for name in (model.lower(), requested.lower()):
        for override in snapshot.overrides:
            if fnmatchcase(name, override.pattern.lower()):
                yield override


def fallback(snapshot: Snapshot, route: Route, requested: str) -> Route | None:
    """The route to try when `route` failed before its first byte."""
    name = bare_name(requested)
    for row in snapshot.routes:
        if row.id == route.fallback_id:
            return _route(snapshot, row, name, row.upstream_model or name)
    return None


def detected_format(snapshot: Snapshot, model: str, *, requested: str) -> Detection:
    """The format of a model, which the upstream calls `model` and the client `requested`."""
    for override in matching_overrides(snapshot, model, requested=requested):
        return Detection(override.format, "override")
    return detect_format(model)


def _route(snapshot: Snapshot, row: RouteRow, requested: str, model: str) -> Route:
    detected = detected_format(snapshot, model, requested=requested)
    settings = snapshot.formats.get(detected.format, FormatRow())
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
        context_warning=settings.context_warning,
        context_window=row.context_window,
        parallel_calls=row.parallel_calls,
        sample_calls=row.sample_calls,
        target=Target(
            model=model,
            native_ids=detected.format == "kimi",
            is_anthropic=upstream.service == Service.ANTHROPIC,
            reasoning_field=_reasoning_field(row, detected.format),
            keeps_reasoning=row.reasoning == Reasoning.AUTO
            and detected.format not in _REASONS_BACK,
            reasoning_request=_reasoning_request(row),
            max_tokens=row.max_tokens,
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
    return Reasoning.CONTENT.value if format_name in _REASONS_BACK else None


def _reasoning_request(row: RouteRow) -> Literal["openrouter"] | None:
    return "openrouter" if row.upstream.service == Service.OPENROUTER else None


def listed_models(snapshot: Snapshot) -> list[str]:
    """The names that a client may be offered, in the order of the routes."""
    names: dict[str, None] = {}
    for row in snapshot.routes:
        # The default route is for all other names; its own is no model's.
        is_name = row is not snapshot.default_route and not set(row.pattern) & set("*?[")
        if row.listed_as or is_name:
            names[row.listed_as or row.pattern] = None
        if row.upstream_model:
            names[row.upstream_model] = None
    return [name for name in names if name]
