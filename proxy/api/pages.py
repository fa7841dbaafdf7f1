"""Lists, a page at a time: a cursor stands between two rows, and no rows are counted."""

from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    ordering: str | tuple[str, ...] = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200


class LastSeenFirst(NewestFirst):
    ordering = ("-last_seen", "-id")
