"""What the schema says of a table's endpoints: a sentence for each action, the same for all."""

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view

from proxy.api.configuration_in import RotateIn
from proxy.api.configuration_out import ChangeOut, KeyMadeOut, OutOfDateOut
from proxy.api.rows import ListedRows, Rows
from proxy.api.serializers import Problem

_View = TypeVar("_View", bound=type[Rows])

_IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag of the row that the change is meant for; another is answered with 412.",
)
_VERSION = OpenApiParameter(
    "version",
    int,
    OpenApiParameter.PATH,
    description="Of the record, as the history has it.",
)
_REFUSALS = {400: Problem, 409: Problem, 412: OutOfDateOut}


def described(noun: str, plural: str = "") -> Callable[[_View], _View]:
    """Says what each action does to a `noun`, which has its article."""

    def describe(view: _View) -> _View:
        out, takes = view.serializer_class, view.takes
        lookups = view.lookups if issubclass(view, ListedRows) else {}
        made = KeyMadeOut if "rotate" in dir(view) else out
        said = {
            "list": extend_schema(
                summary=plural,
                parameters=[
                    OpenApiParameter(name, str, description="Its exact value.") for name in lookups
                ],
            ),
            "retrieve": extend_schema(summary=noun.capitalize(), responses=out),
            "create": extend_schema(
                summary=f"Make {noun}",
                request=takes,
                responses={201: made, 400: Problem, 409: Problem},
            ),
            "partial_update": extend_schema(
                summary=f"Change {noun}",
                description="What is not sent stays as it is.",
                parameters=[_IF_MATCH],
                request=takes,
                responses={200: out, **_REFUSALS},
            ),
            "destroy": extend_schema(
                summary=f"Delete {noun}",
                description="Unless something else needs it: then 409 says what.",
                parameters=[_IF_MATCH],
                responses={204: None, 409: Problem, 412: OutOfDateOut},
            ),
            "history": extend_schema(
                summary=f"What was done to {noun}",
                description="The newest first; also of one that was deleted.",
                responses=ChangeOut(many=True),
            ),
            "revert": extend_schema(
                summary=f"Bring an old state of {noun} back",
                description="As a change of its own, which has a record. Secrets stay as they "
                "are, a revoked key stays revoked, and what was deleted is made again.",
                parameters=[_VERSION, _IF_MATCH],
                request=None,
                responses={200: out, **_REFUSALS},
            ),
            "revoke": extend_schema(
                summary="Refuse a client key from now on",
                parameters=[_IF_MATCH],
                request=None,
                responses={200: out, 412: OutOfDateOut},
            ),
            "rotate": extend_schema(
                summary="Make a key that takes the place of another",
                description="With the same label, owner and limits, and as long a life. The old "
                "one ends after the overlap. The key itself is in this answer alone.",
                parameters=[_IF_MATCH],
                request=RotateIn,
                responses={201: KeyMadeOut, **_REFUSALS},
            ),
        }
        decorate: Any = extend_schema_view(**{n: how for n, how in said.items() if n in dir(view)})
        found: _View = decorate(view)
        return found

    return describe
