"""Base classes of the configuration's endpoints: read, edit and revert the rows of a table.

An edit checks the `If-Match` header and goes through `proxy.configuration.editing`. Fields that are
not sent are not written.
"""

import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError as ModelValidationError
from django.db import IntegrityError
from django.db.models import ProtectedError, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.http import parse_etags
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from proxy.api.audit_views import Endpoint
from proxy.api.configuration_serializers import ChangeOut, RowIn, RowOut
from proxy.api.errors import (
    Conflict,
    NotPossible,
    VersionMismatch,
    model_error,
    serializer_error,
)
from proxy.api.pagination import InTableOrder, NewestRecordFirst
from proxy.configuration import editing
from proxy.configuration.history import (
    KINDS,
    differences,
    previous_record,
    records,
    with_version,
)
from proxy.models import FormatOverride, ModelRoute
from proxy.models.history import Change

_ETAG = re.compile(r'"(0|[1-9][0-9]{0,17})"')
_MAX_NAMES = 10
_RACE = "The configuration was changed by another request at the same time. Try again."


def permissions_of(table: str) -> Mapping[str, tuple[str, ...]]:
    """Django's permissions of a table that each action requires."""
    view, change = f"view_{table}", f"change_{table}"
    return {
        "list": (view,),
        "retrieve": (view,),
        "history": (view,),
        "create": (view, f"add_{table}"),
        "partial_update": (view, change),
        "revert": (view, change),
        "destroy": (view, f"delete_{table}"),
    }


class RowEndpoint(Endpoint):
    """A table whose rows can be read, edited and reverted."""

    pagination_class = InTableOrder
    lookup_value_regex = "[0-9]{1,18}"
    serializer_class: type[RowOut]
    input_serializer: type[RowIn]

    def get_queryset(self) -> "QuerySet[Any]":
        return with_version(super().get_queryset())

    def retrieve(self, request: Request, **kwargs: str) -> Response:
        return self.row_response(self.get_object())

    def partial_update(self, request: Request, **kwargs: str) -> Response:
        with editing.editing():
            row = self.get_object()
            self.check_version(row)
            if values := self.validated(self.input_serializer, partial=True):
                self.save(row, values)
            return self.row_response(self.get_queryset().get(pk=row.pk))

    @action(detail=True, methods=["get"])
    def history(self, request: Request, **kwargs: str) -> Response:
        paginator, row_records = NewestRecordFirst(), self.row_records()
        if not row_records.exists():
            raise Http404
        page = paginator.paginate_queryset(row_records, request, view=self) or []
        older = [*page[1:], *(previous_record(record) for record in page[-1:])]
        changes = [_change(record, old) for record, old in zip(page, older, strict=True)]
        return paginator.get_paginated_response(ChangeOut(changes, many=True).data)

    @action(detail=True, methods=["post"], url_path="history/(?P<version>[0-9]{1,18})/revert")
    def revert(self, request: Request, version: str, **kwargs: str) -> Response:
        with editing.editing():
            record = get_object_or_404(self.row_records(), version=int(version))
            self.check_version(record.instance_type(pk=record.id))
            table, rows = record.instance_type._meta.model_name, self.get_queryset()
            if not rows.filter(pk=record.id).exists() and not self.may(f"add_{table}"):
                raise PermissionDenied
            try:
                editing.revert(record)
            except ModelValidationError as error:
                raise Conflict(model_error(error, {}).detail) from error
            except IntegrityError as error:
                raise NotPossible(_RACE) from error
            return self.row_response(rows.get(pk=record.id))

    def row_records(self) -> "QuerySet[Any]":
        """The history of the row, which may have been deleted."""
        return records(self.get_queryset().model).filter(id=self.kwargs["pk"])

    def check_version(self, row: Any) -> None:
        """Raise VersionMismatch if the request's If-Match header names another version."""
        header = self.request.headers.get("if-match")
        if header is None:
            return
        tags = parse_etags(header)
        if not tags:
            raise ValidationError({"If-Match": ['Send the ETag of a row with its quotes: "17".']})
        if tags == ["*"]:
            return
        seen = {int(match[1]) for tag in tags if (match := _ETAG.fullmatch(tag))}
        try:
            editing.check_version(row, seen)
        except editing.EditConflict as conflict:
            raise _version_mismatch(conflict) from conflict

    def validated(self, serializer: type[BaseSerializer[Any]], *, partial: bool) -> dict[str, Any]:
        """The values of the request's body, checked for their shape."""
        body = serializer(data=self.request.data, partial=partial)
        if not body.is_valid():
            raise serializer_error(body.errors, self.request.data)
        values: dict[str, Any] = body.validated_data
        return values

    def assign(self, row: Any, values: dict[str, Any]) -> set[str]:
        """Set the values; returns the names of the fields to write."""
        for name, value in values.items():
            setattr(row, name, value)
        return set(values)

    def save(self, row: Any, values: dict[str, Any]) -> None:
        fields = self.assign(row, values)
        try:
            editing.save(row, fields=fields)
        except ModelValidationError as error:
            raise model_error(error, self.request.data) from error
        except IntegrityError as error:
            raise NotPossible(_RACE) from error

    def row_response(
        self, row: Any, serializer: type[RowOut] | None = None, *, status: int = 200
    ) -> Response:
        data = (serializer or self.serializer_class)(row).data
        return Response(data, status=status, headers={"ETag": f'"{row.version}"'})


class RowListEndpoint(RowEndpoint):
    """A table with any number of rows, filtered by exact values of fields."""

    lookups: Mapping[str, str] = {}
    """The field that each filter compares."""

    def list(self, request: Request) -> Response:
        self.filters = tuple(self.lookups)
        conditions = {self.lookups[n]: v for n, v in self.query().items() if n in self.lookups}
        return self.page_response(self.get_queryset().filter(**conditions), self.serializer_class)


class EditableTableEndpoint(RowListEndpoint):
    """A table whose rows can also be created and deleted."""

    uses = ("uses it", "use it")
    """The verb for one row that needs this one, and for several, in the error of a deletion."""
    dependants_noun = "route"

    def create(self, request: Request) -> Response:
        with editing.editing():
            row = self.get_queryset().model()
            self.save(row, self.validated(self.input_serializer, partial=False))
            return self.row_response(self.get_queryset().get(pk=row.pk), status=201)

    def destroy(self, request: Request, **kwargs: str) -> Response:
        with editing.editing():
            row = self.get_object()
            self.check_version(row)
            try:
                editing.delete(row)
            except ProtectedError as error:
                raise NotPossible(self._dependants(error)) from error
            return Response(status=204)

    def _dependants(self, error: ProtectedError) -> str:
        needed_by = (ModelRoute, FormatOverride)
        names = sorted(str(row) for row in error.protected_objects if isinstance(row, needed_by))
        sentences = []
        if names:
            one, many = self.uses
            noun = self.dependants_noun
            count = f"1 {noun} {one}" if len(names) == 1 else f"{len(names)} {noun}s {many}"
            more = ", …" if len(names) > _MAX_NAMES else ""
            sentences.append(f"{count}: {', '.join(names[:_MAX_NAMES])}{more}.")
        if len(names) < len(error.protected_objects):
            sentences.append("It is the default route.")
        return " ".join(sentences)


def _version_mismatch(conflict: editing.EditConflict) -> VersionMismatch:
    record = conflict.last_change
    if record is None:
        current = {"version": 0, "changed_by": None, "changed_at": None}
        return VersionMismatch("The row is at version 0: it has no history.", current)
    user = record.history_user.username if record.history_user else None
    return VersionMismatch(
        f"The row is at version {record.version}. {user or 'The gateway itself'} changed it last, "
        f"at {record.history_date:%Y-%m-%d %H:%M:%S} UTC. Read it again before you change it.",
        {"version": record.version, "changed_by": user, "changed_at": record.history_date},
    )


def _change(record: Change, old: Change | None) -> dict[str, Any]:
    return {
        "version": record.version,
        "kind": KINDS[record.history_type],
        "changed_at": record.history_date,
        "changed_by": record.history_user.username if record.history_user else None,
        "reason": record.history_change_reason or "",
        "changes": differences(old, record),
    }
