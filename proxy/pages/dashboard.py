"""Dashboard: the first page of the admin, with tiles, charts and tables for a time range.

Users without permission to see exchanges get Django's plain admin index instead. All numbers come
from precomputed sums (`proxy.audit.traffic`), so the page costs the same for a hundred exchanges
as for millions. Each number links to the exchanges that it counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from proxy.audit.retention import first_kept_day
from proxy.audit.traffic.range_query import (
    RANGES,
    FacetSums,
    Percentiles,
    Step,
    Sums,
    TrafficReport,
    query_facet,
    query_range,
)
from proxy.database.clock import clock
from proxy.models import ConfigurationVersion, Facet, GatewayProcess, GatewaySettings, Outcome
from proxy.pages.access import has_permission, staff_page
from proxy.pages.charts import Point, bar_chart, line_chart
from proxy.pages.number_format import (
    DASH,
    Figure,
    audit_url,
    count_figure,
    duration_figure,
    format_count,
    format_duration,
    share_figure,
    tokens_figure,
)
from proxy.support.exchange_filters import ANY, FAILED, exact_filter

_DEFAULT_RANGE = "24h"
_TABLES = (
    ("By model", Facet.MODEL),
    ("Served by", Facet.SERVED_BY),
    ("By format", Facet.FORMAT),
)
_PROCESSES_ANCHOR = "#processes"


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    figure: Figure
    notes: list[Figure]
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    name: str
    detail: str
    figures: dict[str, Figure]
    """Cells by column heading."""


@staff_page()
def dashboard(request: HttpRequest) -> HttpResponse:
    if not has_permission(request, "view_exchange"):
        return admin.site.index(request)
    board = board_context(request.GET.get("range", ""), clock.now())
    frame = {"title": "Dashboard", "is_nav_sidebar_enabled": False}
    return admin.site.index(request, {**frame, "board": board})


def board_context(range_name: str, now: datetime) -> dict[str, Any]:
    """Build the template context for a range; an unknown range name means 24 hours."""
    chosen = range_name if range_name in RANGES else _DEFAULT_RANGE
    range_ = RANGES[chosen]
    summary = query_range(range_, now)
    days = GatewaySettings.objects.values_list("exchange_days", flat=True).first()
    oldest = first_kept_day(now, days) if days else summary.start
    processes = list(GatewayProcess.running())
    version = ConfigurationVersion.objects.values_list("number", flat=True).first()
    steps = summary.steps
    return {
        "ranges": [(key, one.label, key == chosen) for key, one in RANGES.items()],
        "start": summary.start,
        "now": now,
        "days": days,
        "oldest": oldest if oldest > summary.start else None,
        "tiles": [*range_tiles(summary), *process_tiles(processes, version)],
        "requests": bar_chart(
            [_requests_point(step) for step in steps], ("fine", "failed"), format_count
        ),
        "times": line_chart(
            [_first_byte_point(step) for step in steps], ("p95", "p50"), format_duration
        ),
        "axis": [_step_label(steps[at]) for at in (0, len(steps) // 2, -1)],
        "steps": [_step_row(step) for step in reversed(steps)],
        "tables": [
            (
                title,
                [
                    _facet_row(facet, part, summary.start)
                    for part in query_facet(range_, now, facet)
                ],
            )
            for title, facet in _TABLES
        ],
        "processes": processes,
    }


def range_tiles(summary: TrafficReport) -> list[Tile]:
    """Build the tiles that describe the time range: traffic, failures, tokens, p50/p95/p99."""
    sums, since = summary.sums, summary.start
    every, failed = audit_url(since), audit_url(since, outcome=FAILED)
    answered = audit_url(since, outcome=Outcome.OK.value)
    leaked, rescued = audit_url(since, leaked=ANY), audit_url(since, rescued=ANY)
    refused = audit_url(since, outcome=Outcome.CLIENT_ERROR.value)
    disconnected = audit_url(since, outcome=Outcome.CLIENT_DISCONNECT.value)
    return [
        Tile(
            "Requests",
            count_figure(sums.requests, every),
            [
                count_figure(sums.client_errors, refused, "client errors", singular="client error"),
                count_figure(sums.disconnects, disconnected, "disconnected early"),
            ],
        ),
        Tile(
            "Failure rate",
            share_figure(sums.failures, sums.requests, failed),
            [count_figure(sums.failures, failed, "failed")],
        ),
        Tile(
            "Rescued calls",
            count_figure(sums.calls_rescued, rescued),
            [
                count_figure(sums.rescued, rescued, "answers", singular="answer"),
                count_figure(sums.calls, every, "calls delivered", singular="call delivered"),
            ],
        ),
        Tile(
            "Leak rate",
            share_figure(sums.leaked, sums.requests, leaked),
            [count_figure(sums.leaked, leaked, "with leaked markup")],
        ),
        Tile(
            "Tokens in",
            tokens_figure(sums.tokens_in, every),
            [
                tokens_figure(sums.tokens_out, every, "out"),
                tokens_figure(sums.tokens_cached, every, "from cache"),
            ],
        ),
        _percentile_tile("Time to first byte", summary.first_byte, answered),
        _percentile_tile("Gateway time", summary.gateway, every),
    ]


def _percentile_tile(label: str, times: Percentiles, href: str) -> Tile:
    notes = [duration_figure(times.p95, href, "p95"), duration_figure(times.p99, href, "p99")]
    return Tile(label, duration_figure(times.p50, href), [Figure("median"), *notes])


def process_tiles(processes: Sequence[GatewayProcess], version: int | None) -> list[Tile]:
    """Build the tiles that describe this moment, summed over all running processes.

    `version` is the newest version of the configuration.
    """
    count = len(processes)
    if not count:
        note = [Figure("no process is reporting")]
        return [
            Tile("Open streams", Figure(DASH), note),
            Tile("Audit queue", Figure(DASH), note),
            Tile("Configuration", Figure(DASH if version is None else f"v{version}"), note),
        ]
    streams = sum(process.open_streams for process in processes)
    waiting = sum(process.audit_waiting for process in processes)
    dropped = sum(process.audit_dropped for process in processes)
    current = len([process for process in processes if process.configuration_version == version])
    all_processes = f"{count} process" if count == 1 else f"{count} processes"
    return [
        Tile(
            "Open streams",
            Figure(f"{streams:,}", _PROCESSES_ANCHOR),
            [Figure(f"in {all_processes}", _PROCESSES_ANCHOR)],
        ),
        Tile(
            "Audit queue",
            Figure(f"{waiting:,}", _PROCESSES_ANCHOR),
            [Figure(f"{dropped:,} dropped", _PROCESSES_ANCHOR)],
            is_bad=dropped > 0,
        ),
        Tile(
            "Configuration",
            Figure(f"v{version}", _PROCESSES_ANCHOR),
            [Figure(f"live in {current} of {all_processes}", _PROCESSES_ANCHOR)],
        ),
    ]


def _step_label(step: Step) -> str:
    is_day = (step.end - step.start).days >= 1
    return f"{step.start:%-d %b}" if is_day else f"{step.start:%-d %b %H:%M}"


def _requests_point(step: Step) -> Point:
    sums = step.sums
    requests = "request" if sums.requests == 1 else "requests"
    title = f"{_step_label(step)} UTC: {sums.requests:,} {requests}, {sums.failures:,} failed"
    values = (sums.requests - sums.failures, sums.failures)
    return Point(title, audit_url(step.start, step.end), values)


def _first_byte_point(step: Step) -> Point:
    times = step.first_byte
    p50, p95 = (
        duration_figure(times.p50, "", "p50").text,
        duration_figure(times.p95, "", "p95").text,
    )
    title = f"{_step_label(step)} UTC: {p50}, {p95}"
    answered = audit_url(step.start, step.end, outcome=Outcome.OK.value)
    return Point(title, answered, (times.p95, times.p50))


def _step_row(step: Step) -> TableRow:
    sums, times, between = step.sums, step.first_byte, (step.start, step.end)
    answered = audit_url(*between, outcome=Outcome.OK.value)
    figures = {
        "requests": count_figure(sums.requests, audit_url(*between)),
        "failed": count_figure(sums.failures, audit_url(*between, outcome=FAILED)),
        "rescued calls": count_figure(sums.calls_rescued, audit_url(*between, rescued=ANY)),
        "first byte p50": duration_figure(times.p50, answered),
        "p95": duration_figure(times.p95, answered),
        "p99": duration_figure(times.p99, answered),
    }
    return TableRow(_step_label(step), "", figures)


def _facet_row(facet: Facet, part: FacetSums, since: datetime) -> TableRow:
    if part.value is None:
        return TableRow("Other", "", _facet_figures(part.sums, {}, None))
    if facet is not Facet.SERVED_BY:
        name = part.value or f"no {facet.value}"
        filters = {facet.value: exact_filter(part.value)}
        return TableRow(name, "", _facet_figures(part.sums, filters, since))
    upstream, _, served_by = part.value.partition(" ")
    filters = {"upstream": exact_filter(upstream), "served_by": exact_filter(served_by)}
    detail = f"via {upstream}" if served_by else ""
    name = served_by or upstream or "no upstream"
    return TableRow(name, detail, _facet_figures(part.sums, filters, since))


def _facet_figures(
    sums: Sums, filters: dict[str, str], since: datetime | None
) -> dict[str, Figure]:
    """Build the cells of a table row; without `since` they have no links."""

    def rows(**more: str) -> str:
        return audit_url(since, **filters, **more) if since else ""

    return {
        "requests": count_figure(sums.requests, rows()),
        "failed": share_figure(sums.failures, sums.requests, rows(outcome=FAILED)),
        "rescued calls": count_figure(sums.calls_rescued, rows(rescued=ANY)),
        "leaked": share_figure(sums.leaked, sums.requests, rows(leaked=ANY)),
        "tokens in": tokens_figure(sums.tokens_in, rows()),
        "tokens out": tokens_figure(sums.tokens_out, rows()),
    }
