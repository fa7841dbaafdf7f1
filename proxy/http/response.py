"""What views of the hot path answer with, and how it becomes ASGI messages.

An answer of an upstream's is a stream or a document; all else, errors above all, may be Django's
own response. Its content is in memory and it holds nothing, so that nothing is to be closed.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from django.http import HttpResponse

Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]

_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)

_PIECE = 2**16
"""Bytes of a whole answer that are sent at once: the rest waits for a client that is slow."""


class EventStream:
    """Server-sent events; `on_close` is called however the stream ends, even before it began."""

    status_code = 200

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None],
        on_close: Callable[[], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.parts = parts
        self.on_close = on_close
        self.headers = headers or {}


class Document:
    """A whole answer in JSON."""

    status_code = 200

    def __init__(self, content: bytes, headers: Mapping[str, str]) -> None:
        self.content = content
        self.headers = headers


Response: TypeAlias = EventStream | Document | HttpResponse


async def send_response(response: Response, request_id: str, send: Send) -> None:
    name_of_request = request_id.encode()
    headers = [
        (b"request-id", name_of_request),
        (b"x-request-id", name_of_request),
        *[
            (name.lower().encode(), text.encode("latin-1"))
            for name, text in response.headers.items()
        ],
    ]
    if isinstance(response, EventStream):
        headers += _STREAM_HEADERS
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async for part in response.parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        finally:
            await response.parts.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    if isinstance(response, Document):
        headers.append((b"content-type", b"application/json"))
    content = response.content
    headers.append((b"content-length", b"%d" % len(content)))
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    for end in range(_PIECE, max(len(content), 1) + _PIECE, _PIECE):
        piece, is_more = content[end - _PIECE : end], end < len(content)
        await send({"type": "http.response.body", "body": piece, "more_body": is_more})
