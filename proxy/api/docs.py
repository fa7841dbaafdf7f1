"""The API's OpenAPI schema, and a documentation page rendered from it on the server.

Swagger UI and similar tools need inline styles, which the pages' Content-Security-Policy forbids.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from proxy.api.authentication import SCHEME, TokenAuthentication
from proxy.api.permissions import ProtectedView
from proxy.pages.access import render_page, staff_page

_METHODS = ("get", "post", "patch", "put", "delete")


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes token authentication in the schema; importing it registers it."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": SCHEME}


@cache
def schema() -> dict[str, Any]:
    """The whole API, the same for every user: its shape is not a secret among staff."""
    document: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return document


class Schema(ProtectedView):
    required_permissions = {"get": ()}
    renderer_classes = [OpenApiJsonRenderer]
    schema = None  # does not describe itself

    def get(self, request: Request) -> Response:
        return Response(schema())


@staff_page()
def docs(request: HttpRequest) -> HttpResponse:
    document = schema()
    return render_page(
        request,
        "api/docs.html",
        "Management API",
        groups=_groups(document),
        schemas=[
            (name, _fields(part), [value for value in part.get("enum", ()) if value])
            for name, part in document["components"]["schemas"].items()
            if (part.get("properties") or any(part.get("enum", ())))
            and _body(document, name)[1] == name
        ],
    )


def _groups(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The operations, grouped by their tag: the first part of the path."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for operation in _operations(document):
        groups.setdefault(operation["tag"], []).append(operation)
    return groups


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                operation = methods[method]
                yield {
                    "tag": operation["tags"][0],
                    "method": method.upper(),
                    "path": path,
                    "summary": operation.get("summary", ""),
                    "description": operation.get("description", ""),
                    "parameters": operation.get("parameters", ()),
                    "takes": _body(document, _name(operation.get("requestBody", {}))),
                    "gives": [
                        (code, *_body(document, _name(part)))
                        for code, part in operation["responses"].items()
                    ],
                }


def _name(part: dict[str, Any]) -> str:
    """The name of a body's schema; empty if it has none."""
    for content in part.get("content", {}).values():
        return str(content["schema"].get("$ref", "")).rpartition("/")[2]
    return ""


def _body(document: dict[str, Any], name: str) -> tuple[str, str]:
    """Split a schema that only wraps another into a prefix and the inner schema's name."""
    if inner := re.fullmatch("Paginated(.+)List", name):
        return "a page of ", inner[1]
    inner = re.fullmatch("Patched(.+)", name)
    if inner and inner[1] in document["components"]["schemas"]:
        return "any fields of ", inner[1]
    return "", name


def _fields(part: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, type and description of each field."""
    required = part.get("required", ())
    return [
        (name, f"{_type(field)}{'' if name in required else ', optional'}", _description(field))
        for name, field in part.get("properties", {}).items()
    ]


def _type(field: dict[str, Any]) -> str:
    parts = [field, *field.get("allOf", ()), *field.get("oneOf", ())]
    named = [str(part["$ref"]).rpartition("/")[2] for part in parts if "$ref" in part]
    return " or ".join(named) or str(field.get("format") or field.get("type") or "any")


def _description(field: dict[str, Any]) -> str:
    choices = ", ".join(str(choice) for choice in field.get("enum", ()) if choice != "")
    text = str(field.get("description", "")).partition("* `")[0].strip()  # choices come from `enum`
    return " ".join(part for part in (text, choices) if part)
