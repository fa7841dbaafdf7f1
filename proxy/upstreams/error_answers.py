"""Translates an upstream's error response into the gateway's error and the client's response.

A client of the upstream's dialect gets the upstream's response itself, unless it is about the
gateway's credential or is not an error of that dialect, such as an HTML page.
"""

import math
import re
import time
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from formats import UpstreamError, is_error_body, read_error_answer
from proxy.configuration.routing import Route
from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, ErrorResponse, UpstreamFailed, code_of_kind

_RETRIED_STATUSES = frozenset({502, 503, 529})
_FORWARDED_PREFIXES = (b"anthropic-ratelimit-", b"x-ratelimit-")
_FORWARDED = frozenset(
    {b"x-should-retry", b"retry-after", b"retry-after-ms", b"request-id", b"x-request-id"}
)
_THINKING_REJECTED = re.compile(rb"signature.{0,80}thinking|thinking.{0,80}signature", re.DOTALL)
_TOO_LONG = "prompt is too long"
_MAX_RETRY_AFTER = 60
"""Seconds. Claude Code gives up immediately if it has to wait longer."""

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Names are in lower case."""


def parse_error_answer(
    route: Route, status: int, headers: Headers, body: bytes, *, tokens: int
) -> UpstreamFailed:
    """Convert an error response; `tokens` estimates the input."""
    if 300 <= status < 400:
        return UpstreamFailed(
            ErrorCode.UPSTREAM_REDIRECT,
            f"the upstream {route.upstream.name} answered with a redirect, which is not followed",
        )
    error = read_error_answer(status, body, tokens=tokens, window=route.context_window)
    is_gateway_credential = status in (401, 402, 403)
    return UpstreamFailed(
        ErrorCode.UPSTREAM_AUTH if is_gateway_credential else code_of_kind(error.kind, str(error)),
        redact_credentials(str(error), route.upstream),
        kind=error.kind,
        status=error.status,
        retry_after=_retry_after(headers),
        retry_same_upstream=status in _RETRIED_STATUSES,
        raw=route.upstream.redact(body),
        error_response=None
        if is_gateway_credential
        else _error_response(route.upstream, error, status, headers, body),
        rejects_thinking=status == 400 and bool(_THINKING_REJECTED.search(body)),
    )


def _error_response(
    upstream: Upstream, error: UpstreamError, status: int, headers: Headers, body: bytes
) -> ErrorResponse | None:
    """Return the upstream's response if it is an error of its dialect."""
    if not (400 <= status < 600 and is_error_body(body)):
        return None
    if str(error).startswith(_TOO_LONG) and upstream.dialect == "anthropic":
        if _TOO_LONG.encode() not in body:
            return None  # Claude Code compacts the conversation only at this wording
    return ErrorResponse(status, upstream.redact(body), forwarded_headers(headers, upstream))


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
    if (seconds := _retry_after(headers)) is not None:
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
        message = message.replace(secret, "[redacted]")
    return message


def _retry_after(headers: Headers) -> int | None:
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
