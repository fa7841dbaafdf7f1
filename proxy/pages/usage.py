"""Usage page: requests, failures and tokens of the current user's own client keys. No content."""

from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.http import HttpRequest, HttpResponse

from proxy.database.clock import clock
from proxy.models import FAILURES, ClientKey, Exchange
from proxy.pages.access import render_page, staff_page, staff_user
from proxy.support.exchange_filters import time_range_filter
from proxy.support.failure_text import explain_failure

_DAYS = 7
_MAX_ROWS = 20


@staff_page("view_own_usage")
def usage(request: HttpRequest) -> HttpResponse:
    keys = list(ClientKey.objects.filter(owner=staff_user(request)))
    rows = recent_rows(clock.now()).filter(key__in=keys)
    by_key = {row["number"]: row for row in sums(rows, number=F("key"))}
    recent = Exchange.objects.filter(key__in=keys).select_related("key").order_by("-id")
    return render_page(
        request,
        "audit/usage.html",
        "Usage of your client keys",
        days=_DAYS,
        keys=[(key, by_key.get(key.pk)) for key in keys],
        by_day=sums(rows, day=TruncDate("created_at")).order_by("-day"),
        by_model=sums(rows, name=F("model")).order_by("-requests")[:10],
        rows=[(row, explain_failure(row)) for row in recent[:_MAX_ROWS]] if keys else [],
    )


def recent_rows(now: datetime) -> "QuerySet[Exchange]":
    return Exchange.objects.filter(time_range_filter({"since": f"{_DAYS}d"}, now))


def sums(rows: "QuerySet[Exchange]", **by: Any) -> Any:
    """Sum requests, failures and tokens per value of the given expression."""
    return (
        rows.annotate(**by)
        .values(*by)
        .annotate(
            requests=Count("id"),
            failures=Count("id", filter=Q(outcome__in=FAILURES)),
            tokens_in=Sum("input_tokens"),
            tokens_out=Sum("output_tokens"),
        )
        .order_by()
    )
