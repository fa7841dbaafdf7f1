"""Answered exchanges, as the audit receives them, made without a gateway."""

import json
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from formats import DIALECTS, Conversation, Event, Identity, Limits, Toolbox, build_pipeline
from proxy.audit.capture import Capture
from proxy.audit.exchange import DecodingSettings, Exchange
from tests.support.chat import TOOLS
from tests.support.wire import stream

SYSTEM = "You are a harbor master. " * 400


def turn(*texts: str, **fields: Any) -> bytes:
    """Return a request body whose messages alternate between user and assistant."""
    roles = ("user", "assistant")
    body = {
        "model": "harbor-model",
        "max_tokens": 100,
        "system": SYSTEM,
        "messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)],
        "tools": TOOLS,
        "metadata": {"user_id": "u" * 300},
        "stream": True,
    }
    return json.dumps(body | fields).encode()


def parsed(body: bytes) -> Conversation:
    return DIALECTS["anthropic"].parse(body)


def answered(
    body: bytes,
    *texts: str,
    raw: bytes | None = None,
    secrets: list[str] | None = None,
    limit: int = 2**20,
    headers: dict[str, str] | None = None,
) -> Exchange:
    """Return an exchange whose upstream answered with these texts, one chunk each."""
    exchange, conversation = Exchange("anthropic"), parsed(body)
    exchange.redactor.add_secrets(secrets or [])
    exchange.request.model = conversation.model
    exchange.request.headers = headers or {"user-agent": "claude-cli/2.0"}
    sampling = SimpleNamespace(failures_per_hour=9, sample_others=1.0)
    exchange.request.snapshot = SimpleNamespace(version=1, sampling=sampling)  # type: ignore[assignment]
    exchange.answer.route = SimpleNamespace(  # type: ignore[assignment]
        pattern="*",
        upstream=SimpleNamespace(name="here", dialect="openai", secrets=tuple),
        model="acme/harbor-1",
        format=SimpleNamespace(format="standard", reason="default"),
        limits=Limits(),
        strict=False,
        markers=(),
        split_thinking=None,
        definition=None,
        sample_calls=1.0,
    )
    exchange.answer.decoding = DecodingSettings(
        is_whole=False,
        tools=conversation.tools,
        max_calls=None,
        taken_ids=frozenset(),
        aliases={},
    )
    exchange.capture = Capture(body, limit)
    pipeline = build_pipeline(
        client="anthropic",
        upstream="openai",
        format_name="standard",
        identity=Identity(token=exchange.token, message_id=exchange.message_id),
        toolbox=Toolbox(conversation.tools),
    )
    data = stream(*[{"content": text} for text in texts]) if raw is None else raw
    events: list[Event] = pipeline.decode(data) + pipeline.decode_end()
    exchange.add_read(data, events, perf_counter())
    exchange.add_sent(pipeline.encode(events))
    return exchange
