"""What an upstream answers instead of a message → why it failed, and what its client is told.

A client of the upstream's own dialect is told in the upstream's own words, unless they are about
the gateway's credential, or no error in the form of the dialect: a page of HTML, for one.
"""

import math
import re
import time
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from formats import UpstreamError, is_error_body, read_error_answer
from proxy.configuration.routing import Route
from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, Refusal, UpstreamFailed, code_of_kind

_RETRIED = frozenset({502, 503, 529})
# Headers that tell a client how to go on.
_TOLD_PREFIXES = (b"anthropic-ratelimit-", b"x-ratelimit-")
_TOLD = frozenset(
    {b"x-should-retry", b"retry-after", b"retry-after-ms", b"request-id", b"x-request-id"}
)
_THINKING_REFUSED = re.compile(rb"signature.{0,80}thinking|thinking.{0,80}signature", re.DOTALL)
_TOO_LONG = "prompt is too long"
_LONGEST_WAIT = 60
"""Seconds. Claude Code gives up at once when it is told to wait longer."""

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""As they came, but with names in lower case."""


def refusal_of(
    route: Route, status: int, headers: Headers, body: bytes, *, tokens: int
) -> UpstreamFailed:
    """Why an upstream refused; `tokens` is the estimate of the input."""
    if 300 <= status < 400:
        return UpstreamFailed(
            ErrorCode.UPSTREAM_REDIRECT,
            f"the upstream {route.upstream.name} answered with a redirect, which is not followed",
        )
    error = read_error_answer(status, body, tokens=tokens, window=route.context_window)
    is_ours = status in (401, 402, 403)
    return UpstreamFailed(
        ErrorCode.UPSTREAM_AUTH if is_ours else code_of_kind(error.kind, str(error)),
        redacted(str(error), route.upstream),
        kind=error.kind,
        status=error.status,
        retry_after=_retry_after(headers),
        retry_same_upstream=status in _RETRIED,
        raw=route.upstream.conceal(body),
        refusal=None if is_ours else _own_words(route.upstream, error, status, headers, body),
        refuses_thinking=status == 400 and bool(_THINKING_REFUSED.search(body)),
    )


def _own_words(
    upstream: Upstream, error: UpstreamError, status: int, headers: Headers, body: bytes
) -> Refusal | None:
    """The refusal as the upstream wrote it, if it is an error in the form of its dialect."""
    if not (400 <= status < 600 and is_error_body(body)):
        return None  # a page of HTML, for one
    if str(error).startswith(_TOO_LONG) and upstream.dialect == "anthropic":
        if _TOO_LONG.encode() not in body:
            return None  # the one wording that makes Claude Code compact
    return Refusal(status, upstream.conceal(body), told_headers(headers, upstream))


def told_headers(headers: Headers, upstream: Upstream) -> dict[str, str]:
    """Of an upstream's headers, those that tell a client of its dialect how to go on."""
    names = [name for name, _ in headers if name in _TOLD or name.startswith(_TOLD_PREFIXES)]
    if not names:
        return {}
    told = {
        name.decode("latin-1"): redacted(joined(headers, name), upstream)
        for name in names
        if name == b"x-should-retry" or name.startswith(_TOLD_PREFIXES)
    }
    if (seconds := _retry_after(headers)) is not None:
        told["retry-after"] = str(seconds)
    if request_id := joined(headers, b"request-id") or joined(headers, b"x-request-id"):
        told["x-upstream-request-id"] = redacted(
            request_id, upstream
        )  # `request-id` is the gateway's own
    return told


def joined(headers: Headers, name: bytes) -> str:
    """A header's value; empty when it is not there."""
    return b", ".join([value for known, value in headers if known == name]).decode("latin-1")


def redacted(message: str, upstream: Upstream) -> str:
    """An upstream's words without the gateway's own credential, which some repeat."""
    for secret in filter(None, upstream.secrets()):
        message = message.replace(secret, "[redacted]")
    return message


def _retry_after(headers: Headers) -> int | None:
    """Whole seconds, however the upstream says it, and never so many that a client gives up."""
    for name, unit in ((b"retry-after-ms", 0.001), (b"retry-after", 1.0)):
        value = joined(headers, name)
        try:
            return _clamped(float(value) * unit)
        except ValueError:
            pass
    try:
        moment = parsedate_to_datetime(joined(headers, b"retry-after"))
        return _clamped(moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _clamped(seconds: float) -> int:
    if math.isnan(seconds):
        raise ValueError("not a number of seconds")
    return math.ceil(min(max(seconds, 0), _LONGEST_WAIT))
