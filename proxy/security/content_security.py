"""Middleware that sets Content-Security-Policy and Cache-Control on every page.

Pages show hostile model output, so they run only scripts of the gateway itself. Django 5.2 has no
Content-Security-Policy of its own. A view that needs another policy sets the header itself. `/v1`
has no middleware: the hot path pays nothing for this.

It also warns about a TLS proxy that ATHENA_TRUSTED_PROXIES does not list: its pages redirect to
themselves forever.
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
_UNCACHED_PATHS = ("/admin", "/api")
_WARNING_INTERVAL = 60.0
"""Seconds."""

logger = logging.getLogger("athena.middleware")


@sync_and_async_middleware
def content_security(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            return _add_headers(request, await get_response(request))

        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase:
        return _add_headers(request, get_response(request))

    return answer


def _add_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if request.path.startswith("/v1/"):
        return response
    response.headers.setdefault("content-security-policy", POLICY)
    if request.path.startswith(_UNCACHED_PATHS):
        response.headers.setdefault("cache-control", "no-store")
    if settings.PRODUCTION and not request.is_secure():
        _untrusted_proxy.warn(request)
    return response


class _UntrustedProxyWarning:
    """Warns at most once a minute, because any client can send the header."""

    def __init__(self) -> None:
        self._warned_at = -_WARNING_INTERVAL

    def warn(self, request: HttpRequest) -> None:
        if request.headers.get("x-forwarded-proto") != "https":
            return
        if monotonic() - self._warned_at < _WARNING_INTERVAL:
            return
        self._warned_at = monotonic()
        logger.warning(
            "%s sent x-forwarded-proto: https but is not in ATHENA_TRUSTED_PROXIES. If it is your "
            "proxy, add its address: until then its pages redirect to themselves forever",
            request.META.get("REMOTE_ADDR"),
        )


_untrusted_proxy = _UntrustedProxyWarning()
