"""ASGI application: sends gateway paths to the fast handler and all other paths to Django."""

import os
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "athena_site.settings")

from django.core.asgi import get_asgi_application

_django = get_asgi_application()  # sets up Django before the imports below load models

# Without this import the first request would load the URLs, which takes a third of a second.
import athena_site.urls  # noqa: E402, F401
from proxy.http.page_body_limit import PageBodyLimit  # noqa: E402
from proxy.http.protocol import LIMITS, ON_REJECTION  # noqa: E402
from proxy.serving.error_response import error_response  # noqa: E402
from proxy.serving.handler import GatewayHandler  # noqa: E402
from proxy.serving.runtime import runtime  # noqa: E402
from proxy.telemetry.metrics import count_rejection  # noqa: E402

_gateway = GatewayHandler(
    limits=runtime.request_limits,
    error_response=error_response,
    on_end=runtime.end,
    uploads=runtime.uploads,
    check_accepting=runtime.check_accepting,
)
_pages = PageBodyLimit(_django, limits=runtime.request_limits, on_rejection=count_rejection)
# Claude Code also requests these paths; a plain 404 is enough, without Django's pages and sessions.
_CLAUDE_CODE_PATHS = ("/api/hello", "/api/event_logging/", "/api/oauth/")
# For clients whose base URL lacks /v1. Not all of them exist: the others get an error in JSON.
_WITHOUT_V1 = ("/chat/completions", "/messages", "/models", "/responses")
_GATEWAY_PATHS = (
    "/v1/",
    "/demo/",
    "/healthz",
    "/readyz",
    "/metrics",
    *_WITHOUT_V1,
    *_CLAUDE_CODE_PATHS,
)

_Receive = Callable[[], Awaitable[dict[str, Any]]]
_Send = Callable[[Mapping[str, Any]], Awaitable[None]]


async def application(scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
    if scope["type"] == "lifespan":
        scope["state"].update({LIMITS: runtime.request_limits, ON_REJECTION: count_rejection})
        await _lifespan(receive, send)
        return
    task = runtime.drain.enter()
    try:
        await _answer(scope, receive, send)
    except CancelledError:
        if not runtime.drain.has_aborted:
            raise  # a cancellation by the drain is not an error
    finally:
        runtime.drain.leave(task)


async def _answer(scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
    if scope["path"].startswith(_GATEWAY_PATHS) or scope["path"] in ("/", "/v1"):
        await _gateway(scope, receive, send)
    else:
        await _pages(scope, receive, send)


async def _lifespan(receive: _Receive, send: _Send) -> None:
    await receive()
    await runtime.start()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await runtime.stop()
    await send({"type": "lifespan.shutdown.complete"})
