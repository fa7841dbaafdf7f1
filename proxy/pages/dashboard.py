"""The first page: how the gateway does over a range of time, and at this moment.

Whoever may not see exchanges gets the admin's plain index. The numbers are sums, so that the page
costs the same at a hundred exchanges and at millions; each leads to the rows that it is made of.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from proxy.audit.retention import oldest_kept
from proxy.audit.traffic.overview import RANGES, Part, Step, Sums, overview, parts_of
from proxy.database.clock import clock
from proxy.models import ConfigurationVersion, Facet, GatewayProcess, GatewaySettings, Outcome
from proxy.pages.access import may, page
from proxy.pages.charts import Point, bars, lines
from proxy.pages.number_format import Figure, about, counted, rows_url, share, short, told, took
from proxy.pages.tiles import tiles_of, tiles_of_now
from proxy.support.exchange_list import ANY, FAILED, exactly

_DEFAULT = "24h"
_FACETS = (
    ("By model", Facet.MODEL),
    ("Served by", Facet.SERVED_BY),
    ("By format", Facet.FORMAT),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: what it is of, and its figures by the names of their columns."""

    name: str
    detail: str
    figures: dict[str, Figure]


@page()
def dashboard(request: HttpRequest) -> HttpResponse:
    if not may(request, "view_exchange"):
        return admin.site.index(request)
    shown = board(request.GET.get("range", ""), clock.now())
    frame = {"title": "Dashboard", "is_nav_sidebar_enabled": False}
    return admin.site.index(request, {**frame, "board": shown})


def board(name: str, now: datetime) -> dict[str, Any]:
    """All that the dashboard shows of a range."""
    chosen = name if name in RANGES else _DEFAULT
    asked = RANGES[chosen]
    seen = overview(asked, now)
    days = GatewaySettings.objects.values_list("exchange_days", flat=True).first()
    oldest = oldest_kept(now, days) if days else seen.start
    processes = list(GatewayProcess.running())
    version = ConfigurationVersion.objects.values_list("number", flat=True).first()
    return {
        "ranges": [(key, one.label, key == chosen) for key, one in RANGES.items()],
        "start": seen.start,
        "now": now,
        "days": days,
        "oldest": oldest if oldest > seen.start else None,
        "tiles": [*tiles_of(seen), *tiles_of_now(processes, version)],
        "requests": bars([_requests(step) for step in seen.steps], ("fine", "failed"), short),
        "times": lines([_times(step) for step in seen.steps], ("p95", "p50"), about),
        "axis": [_when(seen.steps[at]) for at in (0, len(seen.steps) // 2, -1)],
        "steps": [_row_of_step(step) for step in reversed(seen.steps)],
        "tables": [
            (title, [_row(facet, part, seen.start) for part in parts_of(asked, now, facet)])
            for title, facet in _FACETS
        ],
        "processes": processes,
    }


def _when(step: Step) -> str:
    is_day = (step.end - step.start).days >= 1
    return f"{step.start:%-d %b}" if is_day else f"{step.start:%-d %b %H:%M}"


def _requests(step: Step) -> Point:
    sums = step.sums
    requests = "request" if sums.requests == 1 else "requests"
    title = f"{_when(step)} UTC: {sums.requests:,} {requests}, {sums.failures:,} failed"
    parts = (sums.requests - sums.failures, sums.failures)
    return Point(title, rows_url(step.start, step.end), parts)


def _times(step: Step) -> Point:
    times = step.first_byte
    p50, p95 = took(times.p50, "", "p50").text, took(times.p95, "", "p95").text
    title = f"{_when(step)} UTC: {p50}, {p95}"
    answered = rows_url(step.start, step.end, outcome=Outcome.OK.value)
    return Point(title, answered, (times.p95, times.p50))


def _row_of_step(step: Step) -> Row:
    sums, times, here = step.sums, step.first_byte, (step.start, step.end)
    answered = rows_url(*here, outcome=Outcome.OK.value)
    figures = {
        "requests": counted(sums.requests, rows_url(*here)),
        "failed": counted(sums.failures, rows_url(*here, outcome=FAILED)),
        "rescued calls": counted(sums.calls_rescued, rows_url(*here, rescued=ANY)),
        "first byte p50": took(times.p50, answered),
        "p95": took(times.p95, answered),
        "p99": took(times.p99, answered),
    }
    return Row(_when(step), "", figures)


def _row(facet: Facet, part: Part, since: datetime) -> Row:
    if part.value is None:
        return Row("Other", "", _figures(part.sums, {}, None))
    if facet is not Facet.SERVED_BY:
        name = part.value or f"no {facet.value}"
        return Row(name, "", _figures(part.sums, {facet.value: exactly(part.value)}, since))
    upstream, _, served_by = part.value.partition(" ")
    filters = {"upstream": exactly(upstream), "served_by": exactly(served_by)}
    detail = f"through {upstream}" if served_by else ""
    return Row(served_by or upstream or "nobody", detail, _figures(part.sums, filters, since))


def _figures(sums: Sums, filters: dict[str, str], since: datetime | None) -> dict[str, Figure]:
    """Without a time, there are no rows to lead to."""

    def rows(**more: str) -> str:
        return rows_url(since, **filters, **more) if since else ""

    return {
        "requests": counted(sums.requests, rows()),
        "failed": share(sums.failures, sums.requests, rows(outcome=FAILED)),
        "rescued calls": counted(sums.calls_rescued, rows(rescued=ANY)),
        "leaked": share(sums.leaked, sums.requests, rows(leaked=ANY)),
        "tokens in": told(sums.tokens_in, rows()),
        "tokens out": told(sums.tokens_out, rows()),
    }
