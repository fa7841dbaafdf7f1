"""Translates an upstream's error response into the gateway's error and the client's response.

A client of the upstream's dialect gets the upstream's response itself, unless it is about the
gateway's credential or is not an error of that dialect, such as an HTML page.
"""

import re

from formats import UpstreamError, describe_body, is_error_body, read_error_answer
from proxy.configuration.routing import Route
from proxy.configuration.upstream import Upstream
from proxy.errors import ErrorCode, ErrorResponse, UpstreamFailed, code_of_kind
from proxy.upstreams.answer_headers import (
    Headers,
    forwarded_headers,
    header_value,
    redact_credentials,
    retry_after,
)

_MEDIA_TYPE = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,60}", re.ASCII)
_RETRIED_STATUSES = frozenset({502, 503, 529})
"""A request that fails with one of these may be tried again (`serving.retry`)."""
_THINKING_REJECTED = re.compile(rb"signature.{0,80}thinking|thinking.{0,80}signature", re.DOTALL)
_TOO_LONG = "prompt is too long"


def parse_error_answer(
    route: Route, status: int, headers: Headers, body: bytes, *, tokens: int
) -> UpstreamFailed:
    """Convert an error response; `tokens` estimates the input."""
    if 300 <= status < 400:
        return UpstreamFailed(
            ErrorCode.UPSTREAM_REDIRECT,
            f"the upstream {route.upstream.name} answered with a redirect, which is not followed",
        )
    error = read_error_answer(
        status,
        body,
        upstream=f"the upstream {route.upstream.name}",
        otherwise=foreign_body_message(route.upstream, status, headers, body),
        tokens=tokens,
        window=route.context_window,
    )
    is_gateway_credential = status in (401, 402, 403)
    return UpstreamFailed(
        ErrorCode.UPSTREAM_AUTH if is_gateway_credential else code_of_kind(error.kind, str(error)),
        redact_credentials(str(error), route.upstream),
        kind=error.kind,
        status=error.status,
        retry_after=retry_after(headers),
        retry_same_upstream=status in _RETRIED_STATUSES,
        raw=route.upstream.redact(body),
        error_response=None
        if is_gateway_credential
        else _error_response(route.upstream, error, status, headers, body),
        rejects_thinking=status == 400 and bool(_THINKING_REJECTED.search(body)),
    )


def foreign_body_message(upstream: Upstream, status: int, headers: Headers, body: bytes) -> str:
    """Name a body that is not an answer of any dialect, such as the page of a proxy."""
    content_type = header_value(headers, b"content-type")
    foreign, media_type = describe_body(body, content_type), _MEDIA_TYPE.match(content_type)
    kind = f", {media_type[0].lower()}" if media_type else ""
    quote = f": {foreign.quote}" if foreign.quote else ""
    message = f"{upstream.name} sent {foreign.kind} (HTTP {status}{kind}){quote}"
    return redact_credentials(message, upstream)


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
