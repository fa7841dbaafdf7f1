"""Endpoints of the configuration as a whole: its version, and the route of a model name."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from proxy.api.audit_serializers import Problem
from proxy.api.configuration_serializers import ResolutionOut, VersionOut
from proxy.api.permissions import ProtectedView
from proxy.configuration.explain import explain_format
from proxy.configuration.history import newest_of_all
from proxy.configuration.routing import Route, bare_name, fallback, resolve
from proxy.configuration.snapshot import NotBootstrapped, Snapshot, load, read_version
from proxy.errors import GatewayError
from proxy.models import CONFIGURATION

_VIEW_ALL = tuple(f"view_{model._meta.model_name}" for model in CONFIGURATION)
_MAX_CHARS = 200


class Resolution(ProtectedView):
    required_permissions = {"get": _VIEW_ALL}

    @extend_schema(
        summary="Resolve a model name",
        description="The route, upstream and format that the current configuration gives the name.",
        parameters=[
            OpenApiParameter("model", str, required=True, description="As a client would send it.")
        ],
        responses={200: ResolutionOut, 400: Problem, 404: Problem},
        operation_id="resolve",
        tags=["configuration"],
    )
    def get(self, request: Request) -> Response:
        unknown = sorted(request.query_params.keys() - {"model"})
        name = request.query_params.get("model", "")
        if unknown:
            raise ValidationError({unknown[0]: ["This parameter does not exist."]})
        if not name or len(name) > _MAX_CHARS:
            raise ValidationError({"model": [f"Enter a name of 1 to {_MAX_CHARS} characters."]})
        try:
            snapshot = load()
            route = resolve(snapshot, name)
        except (GatewayError, NotBootstrapped) as error:
            raise NotFound(str(error) or "There is no configuration yet.") from error
        other = fallback(snapshot, route, name)
        resolution = {
            **_resolved_route(snapshot, route, name),
            "model": name,
            "version": snapshot.version,
            "fallback": _resolved_route(snapshot, other, name) if other else None,
        }
        return Response(ResolutionOut(resolution).data)


class Version(ProtectedView):
    required_permissions = {"get": _VIEW_ALL}

    @extend_schema(
        summary="The version of the configuration, and who made it",
        responses=VersionOut,
        operation_id="configuration",
        tags=["configuration"],
    )
    def get(self, request: Request) -> Response:
        record = newest_of_all()
        user = record.history_user if record else None
        version = {
            "version": read_version(),
            "changed_at": record.history_date if record else None,
            "changed_by": user.username if user else None,
        }
        return Response(VersionOut(version).data)


def _resolved_route(snapshot: Snapshot, route: Route, requested: str) -> dict[str, Any]:
    return {
        "pattern": route.pattern,
        "upstream": route.upstream.name,
        "trouble": route.upstream.trouble,
        "upstream_model": route.model,
        "format": route.format.format,
        "format_reason": route.format.reason,
        "format_origin": explain_format(snapshot, route, bare_name(requested)),
        "buffer_limit": route.limits.held_chars,
        "strict": route.strict,
        "split_thinking": route.split_thinking,
        "context_warning": route.context_warning,
        "max_tokens": route.target.max_tokens,
        "context_window": route.context_window,
        "thinking_tokens": route.target.thinking_tokens,
        "parallel_calls": route.parallel_calls,
        "sample_calls": route.sample_calls,
    }
