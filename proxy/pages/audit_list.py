"""Audit list: failure groups at the top, then all exchanges with filter form, tabs and pager."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from proxy.database.clock import clock
from proxy.errors import ErrorCode
from proxy.models import (
    ClientKey,
    Exchange,
    FailureGroup,
    FailureHour,
    GroupState,
    Outcome,
    Upstream,
)
from proxy.models.formats import format_names
from proxy.pages.access import render_page, staff_page
from proxy.pages.charts import sparkline
from proxy.security.visible_text import visible
from proxy.support.exchange_filters import (
    ANY,
    FAILED,
    FAMILIES,
    FILTERS,
    LEAK_FORMATS,
    NONE,
    TIME_RANGES,
    BadFilter,
    filter_exchanges,
)
from proxy.support.exchange_pages import get_page
from proxy.support.failure_text import explain_code, explain_failure

_MAX_GROUPS = 12
_UNRESOLVED = (GroupState.OPEN, GroupState.REGRESSED)


@staff_page("view_exchange")
def audit_list(request: HttpRequest) -> HttpResponse:
    query = request.GET
    if request_id := query.get("q", "").replace("\0", "").strip():
        exchange = Exchange.objects.filter(request_id=request_id).first()
        if exchange is not None:
            return redirect(exchange)
        messages.warning(
            request,
            f"No exchange has the request id {visible(request_id)[:60]}. Check the id; old"
            " exchanges are deleted.",
        )
    now = clock.now()
    try:
        result = get_page(filter_exchanges(query.dict(), now), query.dict())
    except BadFilter as error:
        messages.error(request, str(error))
        result = get_page(Exchange.objects.all(), {})
    return render_page(
        request,
        "audit/list.html",
        "Audit",
        rows=[(row, explain_failure(row)) for row in result.rows],
        groups=describe_groups(_groups(query), now),
        filters=_filter_fields(query),
        tabs=_tabs(query),
        is_leaked=bool(query.get("leaked")),
        define_for=_leaking_model(query, result.rows),
        active={name: query[name] for name in FILTERS if query.get(name)},
        all_groups=query.get("groups") == "all",
        older=_page_url(query, before=result.older),
        newer=_page_url(query, after=result.newer),
        request_id=request_id,
    )


def _leaking_model(query: QueryDict, rows: list[Exchange]) -> str:
    """The upstream's model, if all listed exchanges leaked and have the same."""
    models = {row.upstream_model for row in rows if row.leaked_format}
    return models.pop() if query.get("leaked") and len(models) == 1 else ""


def describe_groups(groups: "QuerySet[FailureGroup]", now: datetime) -> list[dict[str, Any]]:
    """Add sentence, sparkline and 24-hour count to each group, with three queries in all."""
    since = now - timedelta(hours=24)
    recent = Prefetch("hours", FailureHour.objects.filter(hour__gte=since), to_attr="recent_hours")
    described = []
    for group in groups.select_related("assignee").prefetch_related(recent):
        counts = {hour.hour: hour.count for hour in group.recent_hours}
        described.append(
            {
                "group": group,
                "sentence": explain_code(group.error_code, format_name=group.format),
                "bars": sparkline(counts, now),
                "day": sum(counts.values()),
            }
        )
    return described


def _groups(query: QueryDict) -> "QuerySet[FailureGroup]":
    groups = FailureGroup.objects.all()
    if query.get("groups") != "all":
        groups = groups.filter(state__in=_UNRESOLVED)
    if query.get("format"):
        groups = groups.filter(format=query["format"])
    if query.get("code"):
        groups = groups.filter(error_code=query["code"])
    return groups[:_MAX_GROUPS]


def _filter_fields(query: QueryDict) -> list[dict[str, Any]]:
    """Describe the filter form's fields; a field without choices is a text input."""
    outcomes = [(FAILED, "any failure"), *Outcome.choices]
    keys = [(str(key.pk), key.label) for key in ClientKey.objects.only("label", "prefix")[:200]]
    upstreams = Upstream.objects.values_list("name", flat=True)[:200]
    choices: dict[str, list[tuple[str, str]]] = {
        "outcome": outcomes,
        "leaked": [(ANY, "any format"), *((name, name) for name in LEAK_FORMATS)],
        "family_read": [(ANY, "any family"), *((name, name) for name in FAMILIES)],
        "rescued": [(ANY, "with a rescued call")],
        "format": [(name, name) for name in (*format_names(), NONE)],
        "code": [(code.value, code.value) for code in ErrorCode],
        "upstream": [(name, name) for name in (*upstreams, NONE)],
        "key": keys,
        "model": [],
        "served_by": [],
        "since": [],
        "until": [],
    }
    labels = {
        "leaked": "leaked markup",
        "family_read": "read by auto",
        "rescued": "rescued calls",
        "code": "error",
        "key": "client key",
        "served_by": "served by",
    }
    return [
        {
            "name": name,
            "label": labels.get(name, name),
            "choices": options,
            "value": query.get(name, ""),
            "hints": list(TIME_RANGES) if name == "since" else [],
        }
        for name, options in choices.items()
    ]


def _tabs(query: QueryDict) -> list[tuple[str, str, bool]]:
    """List the tabs of common filters: label, URL, and whether the tab is selected."""
    return [
        ("All", "?", not any(query.get(name) for name in FILTERS)),
        ("Failed", f"?outcome={FAILED}", query.get("outcome") == FAILED),
        ("Leaked markup", f"?leaked={ANY}", query.get("leaked") == ANY),
        ("Rescued calls", f"?rescued={ANY}", query.get("rescued") == ANY),
        ("Read by auto", f"?family_read={ANY}", query.get("family_read") == ANY),
    ]


def _page_url(query: QueryDict, **cursor: int | None) -> str:
    """Return the URL of an adjacent page with the same filters; empty without a cursor."""
    if not all(cursor.values()):
        return ""
    adjacent = query.copy()
    for name in ("before", "after", "q"):
        adjacent.pop(name, None)
    adjacent.update({name: str(value) for name, value in cursor.items()})
    return f"?{adjacent.urlencode()}"
