"""OpenAPI descriptions of the configuration's endpoints, the same for every table."""

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view

from proxy.api.audit_serializers import Problem
from proxy.api.configuration_serializers import ChangeOut, ConflictOut, CreatedKeyOut, RotateIn
from proxy.api.row_views import RowEndpoint, RowListEndpoint

_View = TypeVar("_View", bound=type[RowEndpoint])

_IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag of the row as you read it. If the row has changed since, you get 412.",
)
_VERSION = OpenApiParameter(
    "version",
    int,
    OpenApiParameter.PATH,
    description="The version of a record in the history.",
)
_ERRORS = {400: Problem, 409: Problem, 412: ConflictOut}


def describe_actions(noun: str, plural: str = "") -> Callable[[_View], _View]:
    """Describe each action of a view; `noun` includes its article."""

    def describe(view: _View) -> _View:
        out, body = view.serializer_class, view.input_serializer
        lookups = view.lookups if issubclass(view, RowListEndpoint) else {}
        created = CreatedKeyOut if "rotate" in dir(view) else out
        descriptions = {
            "list": extend_schema(
                summary=plural,
                parameters=[
                    OpenApiParameter(name, str, description="The exact value.") for name in lookups
                ],
            ),
            "retrieve": extend_schema(summary=noun.capitalize(), responses=out),
            "create": extend_schema(
                summary=f"Create {noun}",
                request=body,
                responses={201: created, 400: Problem, 409: Problem},
            ),
            "partial_update": extend_schema(
                summary=f"Change {noun}",
                description="Fields that are not sent keep their values.",
                parameters=[_IF_MATCH],
                request=body,
                responses={200: out, **_ERRORS},
            ),
            "destroy": extend_schema(
                summary=f"Delete {noun}",
                description="If other rows refer to it, you get 409 with their names.",
                parameters=[_IF_MATCH],
                responses={204: None, 409: Problem, 412: ConflictOut},
            ),
            "history": extend_schema(
                summary=f"History of {noun}",
                description="The newest change first. Also works for a deleted row.",
                responses=ChangeOut(many=True),
            ),
            "revert": extend_schema(
                summary=f"Revert {noun} to an earlier version",
                description="The revert is recorded as a new change. Secrets keep their current "
                "values, a revoked key stays revoked, and a deleted row is created again.",
                parameters=[_VERSION, _IF_MATCH],
                request=None,
                responses={200: out, **_ERRORS},
            ),
            "revoke": extend_schema(
                summary="Revoke a client key",
                parameters=[_IF_MATCH],
                request=None,
                responses={200: out, 412: ConflictOut},
            ),
            "rotate": extend_schema(
                summary="Replace a client key with a new one",
                description="The new key has the same label, owner, limits and lifetime. The old "
                "key expires after the overlap. Only this response contains the new key.",
                parameters=[_IF_MATCH],
                request=RotateIn,
                responses={201: CreatedKeyOut, **_ERRORS},
            ),
        }
        decorate: Any = extend_schema_view(
            **{n: d for n, d in descriptions.items() if n in dir(view)}
        )
        decorated: _View = decorate(view)
        return decorated

    return describe
