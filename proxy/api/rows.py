"""A table of the configuration: read, changed, and taken back.

Every change is one transaction that holds the configuration's lock: `If-Match` is compared, the
row's own rules are asked, and the row is saved with a record. What was not sent is not written.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import ValidationError as Invalid
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.http import parse_etags
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from proxy.api.configuration_in import RowIn
from proxy.api.configuration_out import ChangeOut, RowOut
from proxy.api.errors import NotPossible, OutOfDate, Taken, refusal, refusal_of_row
from proxy.api.pages import InOrder, NewestRecordFirst
from proxy.api.views import Endpoint
from proxy.configuration.history import KINDS, before, differences, records, revert, with_version
from proxy.models import ConfigurationVersion, ModelRoute, Upstream
from proxy.models.gateway import check_default
from proxy.models.history import Change

_MOST_NAMES = 10
_RACE = "Somebody else changed the configuration at this moment: try again."


def needs_of(table: str) -> Mapping[str, tuple[str, ...]]:
    """Django's permissions of a table, for each action."""
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


class Rows(Endpoint):
    pagination_class = InOrder
    lookup_value_regex = "[0-9]{1,18}"
    serializer_class: type[RowOut]
    takes: type[RowIn]

    def get_queryset(self) -> "QuerySet[Any]":
        return with_version(super().get_queryset())

    def retrieve(self, request: Request, **kwargs: str) -> Response:
        return self.shown(self.get_object())

    def partial_update(self, request: Request, **kwargs: str) -> Response:
        with self.changing():
            row = self.get_object()
            self.check_version(row.pk)
            if given := self.given(self.takes, partial=True):
                self.save(row, given)
            return self.shown(self.get_queryset().get(pk=row.pk))

    @action(detail=True, methods=["get"])
    def history(self, request: Request, **kwargs: str) -> Response:
        paginator, past = NewestRecordFirst(), self.past()
        if not past.exists():
            raise Http404
        page = paginator.paginate_queryset(past, request, view=self) or []
        older = [*page[1:], *(before(record) for record in page[-1:])]
        told = [_told(record, old) for record, old in zip(page, older, strict=True)]
        return paginator.get_paginated_response(ChangeOut(told, many=True).data)

    @action(detail=True, methods=["post"], url_path="history/(?P<version>[0-9]{1,18})/revert")
    def revert(self, request: Request, version: str, **kwargs: str) -> Response:
        with self.changing():
            record = get_object_or_404(self.past(), version=int(version))
            self.check_version(record.id)
            table, rows = record.instance_type._meta.model_name, self.get_queryset()
            if not rows.filter(pk=record.id).exists() and not self.may(f"add_{table}"):
                raise PermissionDenied
            try:
                revert(record)
            except Invalid as error:
                raise Taken(refusal_of_row(error, {}).detail) from error
            except IntegrityError as error:
                raise NotPossible(_RACE) from error
            return self.shown(rows.get(pk=record.id))

    def past(self) -> "QuerySet[Any]":
        """The records of the row, which need not be there any more."""
        return records(self.get_queryset().model).filter(id=self.kwargs["pk"])

    @contextmanager
    def changing(self) -> Iterator[None]:
        with transaction.atomic():
            ConfigurationVersion.lock()
            yield

    def check_version(self, key: int) -> None:
        """Raise OutOfDate if the caller says that another version is meant."""
        wanted = self.request.headers.get("if-match")
        if wanted is None:
            return
        tags = parse_etags(wanted)
        if not tags:
            raise ValidationError({"If-Match": ['It is the ETag of a row, with its quotes: "17".']})
        record = records(self.get_queryset().model).filter(id=key).first()
        if tags != ["*"] and _tag(record.version if record else 0) not in tags:
            raise _out_of_date(record)

    def given(self, serializer: type[BaseSerializer[Any]], *, partial: bool) -> dict[str, Any]:
        """What was sent, checked for its shape."""
        found = serializer(data=self.request.data, partial=partial)
        if not found.is_valid():
            raise refusal(found.errors, self.request.data)
        checked: dict[str, Any] = found.validated_data
        return checked

    def fill(self, row: Any, given: dict[str, Any]) -> set[str]:
        """Set what was given; the fields that were written."""
        for name, value in given.items():
            setattr(row, name, value)
        if isinstance(row, Upstream | ModelRoute):
            row.from_environment = False
            return {*given, "from_environment"}
        return set(given)

    def save(self, row: Any, given: dict[str, Any]) -> None:
        names = self.fill(row, given)
        try:
            row.full_clean()
            if isinstance(row, ModelRoute):
                check_default(row)
            row.save(update_fields=None if row._state.adding else names)
        except Invalid as error:
            raise refusal_of_row(error, self.request.data) from error
        except IntegrityError as error:
            raise NotPossible(_RACE) from error

    def shown(
        self, row: Any, serializer: type[RowOut] | None = None, *, status: int = 200
    ) -> Response:
        data = (serializer or self.serializer_class)(row).data
        return Response(data, status=status, headers={"ETag": _tag(row.version)})


class ListedRows(Rows):
    """A table with any number of rows; a filter is the exact value of a field."""

    lookups: Mapping[str, str] = {}
    """Of each filter, the field that it is of."""

    def list(self, request: Request) -> Response:
        self.filters = tuple(self.lookups)
        found = {self.lookups[n]: v for n, v in self.query().items() if n in self.lookups}
        return self.paged(self.get_queryset().filter(**found), self.serializer_class)


class EditedRows(ListedRows):
    """A table whose rows are made and deleted, too."""

    uses = ("uses it", "use it")
    """What one route does with a row, and what several do."""

    def create(self, request: Request) -> Response:
        with self.changing():
            row = self.get_queryset().model()
            self.save(row, self.given(self.takes, partial=False))
            return self.shown(self.get_queryset().get(pk=row.pk), status=201)

    def destroy(self, request: Request, **kwargs: str) -> Response:
        with self.changing():
            row = self.get_object()
            self.check_version(row.pk)
            try:
                row.delete()
            except ProtectedError as error:
                raise NotPossible(self._dependants(error)) from error
            return Response(status=204)

    def _dependants(self, error: ProtectedError) -> str:
        names = sorted(str(row) for row in error.protected_objects if isinstance(row, ModelRoute))
        sentences = []
        if names:
            one, many = self.uses
            count = f"1 route {one}" if len(names) == 1 else f"{len(names)} routes {many}"
            more = ", …" if len(names) > _MOST_NAMES else ""
            sentences.append(f"{count}: {', '.join(names[:_MOST_NAMES])}{more}.")
        if len(names) < len(error.protected_objects):
            sentences.append("It is the default route.")
        return " ".join(sentences)


def _tag(version: int) -> str:
    return f'"{version}"'


def _out_of_date(record: Change | None) -> OutOfDate:
    if record is None:
        newest = {"version": 0, "changed_by": None, "changed_at": None}
        return OutOfDate("It is at version 0: there is no record of it.", newest)
    who = record.history_user.username if record.history_user else None
    return OutOfDate(
        f"It is at version {record.version}: {who or 'the gateway itself'} changed it last, "
        f"at {record.history_date:%Y-%m-%d %H:%M:%S} UTC.",
        {"version": record.version, "changed_by": who, "changed_at": record.history_date},
    )


def _told(record: Change, old: Change | None) -> dict[str, Any]:
    return {
        "version": record.version,
        "kind": KINDS[record.history_type],
        "changed_at": record.history_date,
        "changed_by": record.history_user.username if record.history_user else None,
        "reason": record.history_change_reason or "",
        "changes": differences(old, record),
    }
