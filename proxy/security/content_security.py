"""Headers of every page: model output is hostile, and the pages that show it run no code but ours.

Django 5.2 has no Content-Security-Policy of its own. A view that needs another sets the header
itself. The slim handler of `/v1` has no middleware, so that this costs the hot path nothing.

A proxy that nobody trusts is told of in the log: its pages redirect to themselves for ever.
"""

import logging
from collections.abc import Callable
from inspect import iscoroutinefunction
from time import monotonic
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_PRIVATE = ("/admin", "/api")
_LOG_EVERY = 60.0

logger = logging.getLogger("athena.middleware")


@sync_and_async_middleware
def content_security(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            return _secured(request, await get_response(request))

        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase:
        return _secured(request, get_response(request))

    return answer


def _secured(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if request.path.startswith("/v1/"):
        return response
    response.headers.setdefault("content-security-policy", POLICY)
    if request.path.startswith(_PRIVATE):
        response.headers.setdefault("cache-control", "no-store")
    if settings.PRODUCTION and not request.is_secure():
        _doubt.tell(request)
    return response


class _Doubt:
    """Of requests that came by TLS, if whoever passed them on could be believed."""

    def __init__(self) -> None:
        self._told_at = -_LOG_EVERY

    def tell(self, request: HttpRequest) -> None:
        """Log it, once a minute: strangers can write that header, too."""
        if request.headers.get("x-forwarded-proto") != "https":
            return
        if monotonic() - self._told_at < _LOG_EVERY:
            return
        self._told_at = monotonic()
        logger.warning(
            "%s says that a request came by TLS, and is not in ATHENA_TRUSTED_PROXIES: if it is "
            "your proxy, its pages redirect to themselves for ever",
            request.META.get("REMOTE_ADDR"),
        )


_doubt = _Doubt()
