"""The dashboard's big numbers: of a range of time, and of this moment."""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.audit.traffic.overview import Overview, Times
from proxy.models import GatewayProcess, Outcome
from proxy.pages.number_format import DASH, Figure, counted, rows_url, share, told, took
from proxy.support.exchange_list import ANY, FAILED

_PROCESSES = "#processes"


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    figure: Figure
    notes: list[Figure]
    is_bad: bool = False


def tiles_of(seen: Overview) -> list[Tile]:
    """Of a range of time."""
    sums, since = seen.sums, seen.start
    every, failed = rows_url(since), rows_url(since, outcome=FAILED)
    answered = rows_url(since, outcome=Outcome.OK.value)
    leaked, rescued = rows_url(since, leaked=ANY), rows_url(since, rescued=ANY)
    refused = rows_url(since, outcome=Outcome.CLIENT_ERROR.value)
    left = rows_url(since, outcome=Outcome.CLIENT_DISCONNECT.value)
    return [
        Tile(
            "Requests",
            counted(sums.requests, every),
            [
                counted(sums.client_errors, refused, "client errors", one="client error"),
                counted(sums.disconnects, left, "left early"),
            ],
        ),
        Tile(
            "Failure rate",
            share(sums.failures, sums.requests, failed),
            [counted(sums.failures, failed, "failed")],
        ),
        Tile(
            "Rescued calls",
            counted(sums.calls_rescued, rescued),
            [
                counted(sums.rescued, rescued, "answers", one="answer"),
                counted(sums.calls, every, "calls delivered", one="call delivered"),
            ],
        ),
        Tile(
            "Leak rate",
            share(sums.leaked, sums.requests, leaked),
            [counted(sums.leaked, leaked, "with markup")],
        ),
        Tile(
            "Tokens in",
            told(sums.tokens_in, every),
            [told(sums.tokens_out, every, "out"), told(sums.tokens_cached, every, "from cache")],
        ),
        _time_tile("Time to first byte", seen.first_byte, answered),
        _time_tile("Gateway time", seen.gateway, every),
    ]


def _time_tile(label: str, times: Times, href: str) -> Tile:
    notes = [took(times.p95, href, "p95"), took(times.p99, href, "p99")]
    return Tile(label, took(times.p50, href), [Figure("median"), *notes])


def tiles_of_now(processes: Sequence[GatewayProcess], version: int | None) -> list[Tile]:
    """Of this moment, in all processes together; `version` is the newest configuration's."""
    number = len(processes)
    if not number:
        silence = [Figure("no process reports")]
        return [
            Tile("Open streams", Figure(DASH), silence),
            Tile("Audit queue", Figure(DASH), silence),
            Tile("Configuration", Figure(DASH if version is None else f"v{version}"), silence),
        ]
    streams = sum(one.open_streams for one in processes)
    waiting = sum(one.audit_waiting for one in processes)
    dropped = sum(one.audit_dropped for one in processes)
    live = len([one for one in processes if one.configuration_version == version])
    all_of_them = f"{number} process" if number == 1 else f"{number} processes"
    return [
        Tile(
            "Open streams",
            Figure(f"{streams:,}", _PROCESSES),
            [Figure(f"in {all_of_them}", _PROCESSES)],
        ),
        Tile(
            "Audit queue",
            Figure(f"{waiting:,}", _PROCESSES),
            [Figure(f"{dropped:,} dropped", _PROCESSES)],
            is_bad=dropped > 0,
        ),
        Tile(
            "Configuration",
            Figure(f"v{version}", _PROCESSES),
            [Figure(f"live in {live} of {all_of_them}", _PROCESSES)],
        ),
    ]
