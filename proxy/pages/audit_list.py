"""The audit list: what fails by its kind, then every exchange."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect

from formats import FORMATS
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
from proxy.pages.access import page, shown
from proxy.pages.sparkline import sparkline
from proxy.security.visible_text import visible
from proxy.support.exchange_list import (
    ANY,
    FAILED,
    FILTERS,
    LEAKS,
    NONE,
    RANGES,
    BadFilter,
    filtered,
    page_of,
)
from proxy.support.failure_text import sentence_of, why

_MOST_GROUPS = 12
_UNDONE = (GroupState.OPEN, GroupState.REGRESSED)


@page("view_exchange")
def audit_list(request: HttpRequest) -> HttpResponse:
    query = request.GET
    if wanted := query.get("q", "").replace("\0", "").strip():
        found = Exchange.objects.filter(request_id=wanted).first()
        if found is not None:
            return redirect(found)
        messages.warning(request, f"There is no exchange {visible(wanted)[:60]}, or it was pruned.")
    now = clock.now()
    try:
        listed = page_of(filtered(query.dict(), now), query.dict())
    except BadFilter as error:
        messages.error(request, str(error))
        listed = page_of(Exchange.objects.all(), {})
    groups = shown_groups(_groups(query), now)
    return shown(
        request,
        "audit/list.html",
        "Audit",
        rows=[(row, why(row)) for row in listed.rows],
        groups=groups,
        filters=_filters(query),
        tabs=_tabs(query),
        active={name: query[name] for name in FILTERS if query.get(name)},
        all_groups=query.get("groups") == "all",
        older=_url(query, before=listed.older),
        newer=_url(query, after=listed.newer),
        wanted=wanted,
    )


def shown_groups(groups: "QuerySet[FailureGroup]", now: datetime) -> list[dict[str, Any]]:
    """Groups with what a list tells of them, in three queries."""
    since = now - timedelta(hours=24)
    recent = Prefetch("hours", FailureHour.objects.filter(hour__gte=since), to_attr="recent_hours")
    shown = []
    for group in groups.select_related("assignee").prefetch_related(recent):
        counts = {hour.hour: hour.count for hour in group.recent_hours}
        shown.append(
            {
                "group": group,
                "sentence": sentence_of(group.error_code, format_name=group.format),
                "bars": sparkline(counts, now),
                "day": sum(counts.values()),
            }
        )
    return shown


def _groups(query: QueryDict) -> "QuerySet[FailureGroup]":
    groups = FailureGroup.objects.all()
    if query.get("groups") != "all":
        groups = groups.filter(state__in=_UNDONE)
    if query.get("format"):
        groups = groups.filter(format=query["format"])
    if query.get("code"):
        groups = groups.filter(error_code=query["code"])
    return groups[:_MOST_GROUPS]


def _filters(query: QueryDict) -> list[dict[str, Any]]:
    """The fields of the filter form; one without choices is typed."""
    outcomes = [(FAILED, "failed, of any kind"), *Outcome.choices]
    keys = [(str(key.pk), key.label) for key in ClientKey.objects.only("label", "prefix")[:200]]
    upstreams = Upstream.objects.values_list("name", flat=True)[:200]
    choices: dict[str, list[tuple[str, str]]] = {
        "outcome": outcomes,
        "leaked": [(ANY, "any format"), *((name, name) for name in LEAKS)],
        "rescued": [(ANY, "with a rescued call")],
        "format": [(name, name) for name in (*sorted(FORMATS), NONE)],
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
            "hints": list(RANGES) if name == "since" else [],
        }
        for name, options in choices.items()
    ]


def _tabs(query: QueryDict) -> list[tuple[str, str, bool]]:
    """The views of the list that people want most: their names, addresses, and which it is."""
    return [
        ("All", "?", not any(query.get(name) for name in FILTERS)),
        ("Failed", f"?outcome={FAILED}", query.get("outcome") == FAILED),
        ("Leaked markup", f"?leaked={ANY}", query.get("leaked") == ANY),
        ("Rescued calls", f"?rescued={ANY}", query.get("rescued") == ANY),
    ]


def _url(query: QueryDict, **place: int | None) -> str:
    """This page's address at another place; empty if there is none."""
    if not all(place.values()):
        return ""
    other = query.copy()
    for name in ("before", "after", "q"):
        other.pop(name, None)
    other.update({name: str(value) for name, value in place.items()})
    return f"?{other.urlencode()}"
