"""What Prometheus is told of the gateway; docs/metrics.md says how to read it.

The values of labels are the configuration's and the code's own: a route's pattern, an upstream's
name, a model that some route names, a code of docs/errors.md. Nothing that a client or a model
writes becomes one, so that the number of series is bounded. With several workers each counts in
files of its own, and whichever is asked adds them up.
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
from prometheus_client.multiprocess import MultiProcessCollector

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with the directory that workers share; the library reads it when it is imported."""

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
REQUESTS = Counter(
    "athena_requests_total",
    "Conversations that have ended, and requests that were refused, by the status that the client"
    " was sent; a stream that failed on the way has 200 and an error_source.",
    ("route", "provider", "model_group", "status", "error_source"),
    registry=REGISTRY,
)
TRANSFORMS = Counter(
    "athena_transform_total",
    "Answers that were read to their end, by how that went: ok, rescued (calls were found in the"
    " text), leaked (markup was seen that the format does not read) or failed, with the error's"
    " code as the reason.",
    ("format", "outcome", "reason"),
    registry=REGISTRY,
)
TTFB = Histogram(
    "athena_upstream_ttfb_seconds",
    "From asking the upstream that answered to the first content of its answer.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300),
    registry=REGISTRY,
)
OVERHEAD = Histogram(
    "athena_gateway_overhead_seconds",
    "What the gateway itself worked on a conversation, without any waiting.",
    buckets=(0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.125, 0.25, 0.5, 1),
    registry=REGISTRY,
)
OPEN_STREAMS = Gauge(
    "athena_open_streams",
    "Conversations that are being answered, streamed or not.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
HELD_PLACES = Gauge(
    "athena_held_places",
    "Requests that hold a place of those that a node and a key may have.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
REFUSED_KEYS = Counter(
    "athena_refused_keys_total",
    "Requests without a good key; a revoked one is unknown.",
    ("reason",),
    registry=REGISTRY,
)
REDIS_FALLBACKS = Counter(
    "athena_redis_fallbacks_total",
    "Requests that were counted by one process alone, as Redis did not answer.",
    registry=REGISTRY,
)
DISCONNECTS = Counter(
    "athena_client_disconnects_total",
    "Conversations whose client left before the end of the answer.",
    registry=REGISTRY,
)
AUDIT_QUEUE = Gauge(
    "athena_audit_queue_depth",
    "Exchanges that have ended and wait to be written to the database.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
JOURNAL_BYTES = Gauge(
    "athena_journal_bytes",
    "What the journals have on disk: exchanges on their way to the database.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
AUDIT_DROPPED = Counter(
    "athena_audit_dropped_total",
    "Exchanges that are in no row: too many were waiting, or the database refused the row.",
    registry=REGISTRY,
)
CONFIG_VERSION = Gauge(
    "athena_config_version",
    "The version of the configuration that is live; of several workers, the lowest.",
    multiprocess_mode="livemin",
    registry=REGISTRY,
)
CONFIG_VERSION.set(inf)  # a worker that is still starting is not the lowest
ROWS_REMAINING = Gauge(
    "athena_retention_rows_remaining",
    "Rows that were to be deleted by the last daily run and are still there.",
    multiprocess_mode="mostrecent",
    registry=REGISTRY,
)
BUFFER_BYTES = Gauge(
    "athena_buffer_bytes",
    "Bytes of open answers that have come and are held back, as nothing can be made of them yet.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
LOOP_LAG = Histogram(
    "athena_loop_lag_seconds",
    "How late a timer on the event loop came, four times a second: what everything waited for.",
    buckets=(0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60),
    registry=REGISTRY,
)
LOG_DROPPED = Counter(
    "athena_log_dropped_total",
    "Lines of the log that were dropped, as nobody read what was written before.",
    registry=REGISTRY,
)

# The library looks up a series under a lock, after converting the labels to strings.
request_series = lru_cache(1024)(REQUESTS.labels)
transform_series = lru_cache(256)(TRANSFORMS.labels)


def count_refusal(status: int) -> None:
    """Count a request that did not come as far as the application."""
    request_series("", "", "", str(status), "client").inc()


def measure(
    *,
    open_streams: int,
    places: int,
    held: Iterable[int],
    waiting: int,
    journal_bytes: int,
    version: int,
) -> None:
    """Note how things stand in this process."""
    OPEN_STREAMS.set(open_streams)
    HELD_PLACES.set(places)
    BUFFER_BYTES.set(sum(held))
    AUDIT_QUEUE.set(waiting)
    JOURNAL_BYTES.set(journal_bytes)
    CONFIG_VERSION.set(version)


def exposition() -> bytes:
    """What a scrape gets, in Prometheus's text format; where workers share, read from files."""
    directory = os.environ.get(DIRECTORY)
    if directory is None:
        return generate_latest(REGISTRY)
    for path in Path(directory).glob("gauge_live*.db"):
        if not _is_running(int(path.stem.rpartition("_")[2])):
            path.unlink(missing_ok=True)  # what a dead worker counted stays, how it stood does not
    shared = CollectorRegistry()
    MultiProcessCollector(shared, directory)  # type: ignore[no-untyped-call]
    return generate_latest(shared)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # or the number is somebody else's by now
        return False
    return True
