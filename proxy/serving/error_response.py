"""Turns every exception into an HTTP response. This is the only place that does."""

import logging

from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpResponse

from formats import DIALECTS, FormatsError, with_request_id
from proxy.errors import ErrorCode, GatewayError, UpstreamFailed
from proxy.serving.request import GatewayRequest

logger = logging.getLogger("athena.views")

ENDPOINTS = (
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/chat/completions",
    "/v1/models",
)
"""Paths that a client may have meant."""

# Statuses that a dialect does not know, and what it uses instead.
_STATUS = {("openai", 529): 503}


def error_response(request: GatewayRequest, error: Exception) -> HttpResponse:
    """Render an exception in the client's dialect, and record it in the exchange."""
    failure = _as_gateway_error(request, error)
    exchange = request.exchange
    exchange.error = failure
    headers = {
        "x-athena-error": failure.code,
        "x-athena-error-source": failure.source,
        **failure.headers,
    }
    if isinstance(failure, UpstreamFailed) and (response := failure.error_response):
        body = with_request_id(response.body, exchange.request_id, otherwise=str(failure))
        exchange.add_sent(body)
        return HttpResponse(
            body,
            content_type="application/json",
            status=response.status,
            headers={**headers, **response.headers},
        )
    body = DIALECTS[exchange.dialect].encode_error(
        failure.kind,
        str(failure),
        request_id=exchange.request_id,
        details=failure.details,
        param=failure.param,
    )
    exchange.add_sent(body)
    if failure.retry_after is not None:
        headers["retry-after"] = str(failure.retry_after)
    if not failure.should_retry:
        headers["x-should-retry"] = "false"
    status = _STATUS.get((exchange.dialect, failure.status), failure.status)
    return HttpResponse(body, content_type="application/json", status=status, headers=headers)


def _nothing_at(path: str) -> str:
    message = f"there is nothing at {path[:200]}"
    if path.startswith("/messages"):
        return f"{message}. Add /v1 to the base URL, for {ENDPOINTS[0]}"
    if path.startswith(("/v1", "/responses")):
        return f"{message}. The endpoints are {', '.join(ENDPOINTS)}"
    return message


def _as_gateway_error(request: GatewayRequest, error: Exception) -> GatewayError:
    match error:
        case GatewayError():
            return error
        case FormatsError():
            return GatewayError.of(error)
        case Http404():
            return GatewayError(ErrorCode.NOT_FOUND, _nothing_at(request.path))
        case SuspiciousOperation():
            return GatewayError(ErrorCode.INVALID_REQUEST, str(error), should_retry=False)
    logger.error("unexpected error in the gateway", exc_info=error)
    message = "the gateway failed unexpectedly: its log has the cause"
    return GatewayError(ErrorCode.INTERNAL_ERROR, message)
