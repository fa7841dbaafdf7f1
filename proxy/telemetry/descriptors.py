"""File descriptors: every connection takes one, and a process may have a limited number.

Each new descriptor has the lowest free number, so a number near the limit means that few are left.
A shortage is noticed by that number, because uvloop reports no error: when none is left, it closes
new connections of clients. Connections to upstreams fail with an error.
"""

import errno
import logging
import resource
import time

from proxy.telemetry.metrics import DESCRIPTOR_SHORTAGES

_FEW = 4
_LOG_INTERVAL = 60.0
_SPARE = 100
"""For databases, logs, journals, libraries and the idle connections to upstreams."""

logger = logging.getLogger("athena.descriptors")


class _Log:
    next_at = 0.0


def limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def needed(streams: int) -> int:
    """Return how many descriptors a process needs for concurrent requests."""
    return 2 * streams + _SPARE  # one for the client, one for the upstream


def note_connection(descriptor: int) -> None:
    """Report a shortage if a new connection has taken one of the last descriptors."""
    if descriptor >= limit() - _FEW:
        report_shortage()


def is_shortage(error: BaseException | None) -> bool:
    """Return True if an error, or a cause of it, is the lack of descriptors."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__ or error.__context__
    return False


def report_shortage() -> None:
    """Count a shortage, and log it at most once a minute."""
    DESCRIPTOR_SHORTAGES.inc()
    now = time.monotonic()
    if now >= _Log.next_at:
        _Log.next_at = now + _LOG_INTERVAL
        logger.error(
            "this process has used nearly all of its %d file descriptors: new connections of"
            " clients are closed, and upstreams cannot be reached, when none is left. Raise the"
            " limit (`ulimit -n`, or LimitNOFILE of systemd), or lower *concurrent requests*",
            limit(),
        )
