"""Small requests of clients and answers of upstreams."""

import json
from typing import Any

import httpx

from tests.support.client_views import View, view
from tests.support.scripted_upstream import reply
from tests.support.wire import chunk, data, stream

TOOLS = [
    {
        "name": "get_tide",
        "description": "The tide in a harbor.",
        "input_schema": {
            "type": "object",
            "properties": {"harbor": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["harbor"],
        },
    }
]

END = chunk({}, "stop") + b"data: [DONE]\n\n"


def ask(model: str, text: str = "Hello", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": model, "max_tokens": 100, "messages": messages, **fields}


def read(response: httpx.Response) -> View:
    """Read a streamed answer as a client does."""
    assert response.status_code == 200, response.text
    return view(response.content, "anthropic")


def error_of(response: httpx.Response) -> tuple[int, str, str]:
    """Return status, type and message of an error in the Anthropic dialect."""
    body = response.json()
    assert body["type"] == "error"
    assert body["request_id"] == response.headers["request-id"] == response.headers["x-request-id"]
    assert response.headers["content-type"] == "application/json"
    message = body["error"]["message"].removesuffix(f" (request {body['request_id']})")
    return response.status_code, body["error"]["type"], message


def says(text: str) -> list[Any]:
    """Return a complete upstream answer with this text."""
    return reply(stream({"role": "assistant", "content": text}))


__all__ = [
    "END",
    "TOOLS",
    "ask",
    "chunk",
    "data",
    "error_of",
    "json",
    "read",
    "reply",
    "says",
    "stream",
]
