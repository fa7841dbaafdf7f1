"""Pagination of the API's lists by cursor; rows are never counted."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.views import APIView


class NewestFirst(CursorPagination):
    ordering: str | tuple[str, ...] = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, OverflowError, ValidationError, DataError) as error:
            raise NotFound("The cursor does not belong to this list.") from error


class LastSeenFirst(NewestFirst):
    ordering = ("-last_seen", "-id")


class InTableOrder(NewestFirst):
    """The model's default order: by precedence for rows with a priority, by name for others."""

    def get_ordering(
        self, request: Request, queryset: "QuerySet[Any]", view: APIView
    ) -> tuple[str, ...]:
        return tuple(str(name) for name in queryset.model._meta.ordering)


class NewestRecordFirst(NewestFirst):
    ordering = "-history_id"
