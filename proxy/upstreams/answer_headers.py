"""Headers of an upstream's answer: which are forwarded to the client, and `retry-after`.

Only rate limits, retry hints and the upstream's request id are forwarded, with a success and with
an error; never cookies, nor headers of the connection.
"""

import math
import time
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from proxy.configuration.upstream import Upstream
from proxy.security.redaction import spellings_of

_FORWARDED_PREFIXES = (b"anthropic-ratelimit-", b"x-ratelimit-")
_FORWARDED = frozenset(
    {b"x-should-retry", b"retry-after", b"retry-after-ms", b"request-id", b"x-request-id"}
)
_MAX_RETRY_AFTER = 60
"""Seconds. Claude Code gives up immediately if it has to wait longer."""

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Names are in lower case."""


def forwarded_headers(headers: Headers, upstream: Upstream) -> dict[str, str]:
    """Return the headers for a client of the upstream's dialect: rate limits and retry hints."""
    names = [
        name for name, _ in headers if name in _FORWARDED or name.startswith(_FORWARDED_PREFIXES)
    ]
    if not names:
        return {}
    forwarded = {
        name.decode("latin-1"): redact_credentials(header_value(headers, name), upstream)
        for name in names
        if name == b"x-should-retry" or name.startswith(_FORWARDED_PREFIXES)
    }
    if (seconds := retry_after(headers)) is not None:
        forwarded["retry-after"] = str(seconds)
    if request_id := header_value(headers, b"request-id") or header_value(headers, b"x-request-id"):
        # `request-id` is the gateway's own.
        forwarded["x-upstream-request-id"] = redact_credentials(request_id, upstream)
    return forwarded


def header_value(headers: Headers, name: bytes) -> str:
    """Return all values of a header, joined; empty if it is missing."""
    return b", ".join([value for known, value in headers if known == name]).decode("latin-1")


def redact_credentials(message: str, upstream: Upstream) -> str:
    """Remove the gateway's own credentials, which some upstreams repeat in their messages."""
    for secret in filter(None, upstream.secrets()):
        for spelling in sorted(filter(None, spellings_of(secret)), key=len, reverse=True):
            message = message.replace(spelling, "[redacted]")
    return message


def retry_after(headers: Headers) -> int | None:
    """Read milliseconds, seconds or a date as whole seconds, at most `_MAX_RETRY_AFTER`."""
    for name, unit in ((b"retry-after-ms", 0.001), (b"retry-after", 1.0)):
        value = header_value(headers, name)
        try:
            return _clamp(float(value) * unit)
        except ValueError:
            pass
    try:
        moment = parsedate_to_datetime(header_value(headers, b"retry-after"))
        return _clamp(moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _clamp(seconds: float) -> int:
    if math.isnan(seconds):
        raise ValueError("retry-after is not a number")
    return math.ceil(min(max(seconds, 0), _MAX_RETRY_AFTER))
