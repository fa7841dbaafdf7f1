"""Counts finished exchanges in the metrics."""

from proxy.audit.exchange import Exchange
from proxy.configuration.snapshot import Snapshot
from proxy.models import Outcome
from proxy.telemetry.metrics import (
    DISCONNECTS,
    OVERHEAD,
    TTFB,
    request_series,
    transform_series,
)

OTHER = "other"
"""Label of every model that the configuration does not name."""


def count_exchange(exchange: Exchange, status: int) -> None:
    """Count a finished exchange. Probes and model lists are not counted."""
    error, route = exchange.error, exchange.answer.route
    if exchange.request.snapshot is None and error is None:
        return
    request_series(
        route.pattern if route else "",
        route.upstream.name if route else "",
        _model_group(exchange.request.snapshot, route.model)
        if route and exchange.request.snapshot
        else "",
        str(status),
        error.source if error else "",
    ).inc()
    if exchange.request.snapshot is None:
        return
    OVERHEAD.observe(exchange.transfer.own_time)
    if not exchange.has_client:
        DISCONNECTS.inc()
    if exchange.answer.seconds_to_start is not None:
        TTFB.observe(exchange.answer.seconds_to_start)
    if route is not None and (transform := _transform(exchange)) is not None:
        transform_series(route.format.format, *transform).inc()


def _model_group(snapshot: Snapshot, model: str) -> str:
    """Labels are bounded: only names that the configuration has."""
    return model if model in snapshot.model_names else OTHER


def _transform(exchange: Exchange) -> tuple[str, str] | None:
    """Return outcome and reason, or None if the answer was not read to its end."""
    outcome = exchange.outcome
    if outcome is Outcome.TRANSFORM_FAILED and exchange.error is not None:
        return "failed", exchange.error.code
    if outcome is not Outcome.OK:
        return None
    if exchange.answer.rescued_calls:
        return "rescued", ""
    return ("leaked" if exchange.answer.leaked_format else "ok"), ""
