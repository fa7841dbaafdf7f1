"""Prometheus metrics of the gateway; docs/metrics.md explains them.

Label values come only from the configuration and the code: route patterns, upstream names, model
names of routes, error codes. No text of a client or a model becomes a label, so the number of
series is bounded. Each worker counts in its own files; the worker that is scraped adds them up.
"""

import os
from collections.abc import Iterable
from functools import lru_cache
from math import inf
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the directory that workers share; prometheus_client reads it when imported."""

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
REQUESTS = Counter(
    "athena_requests_total",
    "Finished conversations and rejected requests, by the status sent to the client; a stream that"
    " failed after its start has 200 and an error_source.",
    ("route", "provider", "model_group", "status", "error_source"),
    registry=REGISTRY,
)
TRANSFORMS = Counter(
    "athena_transform_total",
    "Answers read to their end, by result: ok, rescued (calls were found in the text), leaked"
    " (the format does not read the markup that was seen) or failed, with the error code as the"
    " reason.",
    ("format", "outcome", "reason"),
    registry=REGISTRY,
)
TTFB = Histogram(
    "athena_upstream_ttfb_seconds",
    "Time from the request to the upstream that answered until the first content of its answer.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300),
    registry=REGISTRY,
)
OVERHEAD = Histogram(
    "athena_gateway_overhead_seconds",
    "Work of the gateway itself on a conversation, without waiting.",
    buckets=(0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.125, 0.25, 0.5, 1),
    registry=REGISTRY,
)
OPEN_STREAMS = Gauge(
    "athena_open_streams",
    "Conversations being answered, streamed or not.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
HELD_PLACES = Gauge(
    "athena_held_places",
    "Concurrency slots in use, of those that a node and a key may have.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
REFUSED_KEYS = Counter(
    "athena_refused_keys_total",
    "Requests without a valid key, by reason; a revoked key counts as unknown.",
    ("reason",),
    registry=REGISTRY,
)
REDIS_FALLBACKS = Counter(
    "athena_redis_fallbacks_total",
    "Requests counted by one process alone because Redis did not answer.",
    registry=REGISTRY,
)
DISCONNECTS = Counter(
    "athena_client_disconnects_total",
    "Conversations whose client disconnected before the end of the answer.",
    registry=REGISTRY,
)
AUDIT_QUEUE = Gauge(
    "athena_audit_queue_depth",
    "Finished exchanges that wait to be written to the database.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
JOURNAL_BYTES = Gauge(
    "athena_journal_bytes",
    "Size of the journals on disk: exchanges on their way to the database.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
AUDIT_DROPPED = Counter(
    "athena_audit_dropped_total",
    "Exchanges without a row: too many were waiting, or the database rejected the row.",
    registry=REGISTRY,
)
CONFIG_VERSION = Gauge(
    "athena_config_version",
    "Version of the live configuration; the lowest of all workers.",
    multiprocess_mode="livemin",
    registry=REGISTRY,
)
CONFIG_VERSION.set(inf)  # a worker that is still starting does not count as the lowest
ROWS_REMAINING = Gauge(
    "athena_retention_rows_remaining",
    "Rows that the last daily deletion should have deleted but has not.",
    multiprocess_mode="mostrecent",
    registry=REGISTRY,
)
BUFFER_BYTES = Gauge(
    "athena_buffer_bytes",
    "Received bytes of open answers that are held back until they can be interpreted.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
LOOP_LAG = Histogram(
    "athena_loop_lag_seconds",
    "Delay of a timer on the event loop, measured four times a second.",
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60),
    registry=REGISTRY,
)
LOG_DROPPED = Counter(
    "athena_log_dropped_total",
    "Log lines dropped because standard error was blocked or failed.",
    registry=REGISTRY,
)
DESCRIPTOR_SHORTAGES = Counter(
    "athena_descriptor_shortages_total",
    "Connections that took one of the last file descriptors, or failed for lack of one.",
    registry=REGISTRY,
)

# The library looks up a series under a lock, after converting the labels to strings.
request_series = lru_cache(1024)(REQUESTS.labels)
transform_series = lru_cache(256)(TRANSFORMS.labels)


def count_rejection(status: int) -> None:
    """Count a request that was rejected before it reached the application."""
    request_series("", "", "", str(status), "client").inc()


def set_gauges(
    *,
    open_streams: int,
    slots: int,
    buffered_bytes: Iterable[int],
    audit_waiting: int,
    journal_bytes: int,
    configuration_version: int,
) -> None:
    OPEN_STREAMS.set(open_streams)
    HELD_PLACES.set(slots)
    BUFFER_BYTES.set(sum(buffered_bytes))
    AUDIT_QUEUE.set(audit_waiting)
    JOURNAL_BYTES.set(journal_bytes)
    CONFIG_VERSION.set(configuration_version)


def exposition() -> bytes:
    """Render all metrics in Prometheus's text format, summed over the workers if there are any."""
    directory = os.environ.get(DIRECTORY)
    if directory is None:
        return generate_latest(REGISTRY)
    for path in Path(directory).glob("gauge_live*.db"):
        if not _is_running(int(path.stem.rpartition("_")[2])):
            path.unlink(missing_ok=True)  # counters of dead workers stay, gauges do not
    return generate_latest(_Workers(directory))


class _Workers:
    """Collects the metrics of all workers from their files."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        # A worker that is starting has an empty file for a moment, which the library cannot read.
        files = [path for path in Path(self._directory).glob("*.db") if _has_content(path)]
        return MultiProcessCollector.merge(map(str, files))  # type: ignore[no-untyped-call,no-any-return]


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:  # another worker has deleted it
        return False


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # or another user's process has the pid now
        return False
    return True
