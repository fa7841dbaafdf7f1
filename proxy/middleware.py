"""Headers of every page: model output is hostile, and the pages that show it run no code but ours.

Django 5.2 has no Content-Security-Policy of its own. A view that needs another sets the header
itself. The slim handler of `/v1` has no middleware, so that this costs the hot path nothing.
"""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

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
    return response
