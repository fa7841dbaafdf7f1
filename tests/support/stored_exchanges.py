"""Exchanges as the audit stores them, made without a gateway."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from django.contrib.auth import get_user_model

from proxy.audit.transcripts.codec import TranscriptContent, pack, stored_event
from proxy.audit.transcripts.replay_input import decode_again
from proxy.configuration.bootstrap import bootstrap
from proxy.models import Exchange, FailureGroup, Outcome, Transcript
from tests.support.chat import TOOLS
from tests.support.wire import stream

KIMI = (
    "Let me look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0"
    '<|tool_call_argument_begin|>{"harbor": "Bergen"}<|tool_call_end|><|tool_calls_section_end|>'
)
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)

_numbers = count(1)


def configure() -> None:
    """Create the rows that every gateway has."""
    # Without a password: hashing takes long.
    get_user_model()._default_manager.create(username="root", is_superuser=True)
    bootstrap({})


def exchange_row(**fields: Any) -> Exchange:
    number = next(_numbers)
    return Exchange.objects.create(
        **{
            "request_id": f"req_{number:024x}",
            "created_at": NOW + timedelta(seconds=number),
            "dialect": "anthropic",
            "model": "harbor-model",
            "upstream": "openrouter",
            "upstream_model": "acme/harbor-1",
            "format": "standard",
            "format_reason": "default",
            "status": 200,
            "outcome": Outcome.OK,
            "duration_ms": 1234.5,
            "gateway_ms": 1.5,
            "configuration_version": 1,
            **fields,
        }
    )


def stored_exchange(
    raw: bytes,
    *,
    transcript: dict[str, Any] | None = None,
    definition: str | None = None,
    **fields: Any,
) -> Exchange:
    """Create an exchange with the answer `raw`, and its transcript.

    `definition` is the text of the operator's format that read it.
    """
    row = exchange_row(**fields)
    reading = {
        "client": "anthropic",
        "upstream": "openai",
        "format": row.format,
        "held_chars": 1024 * 1024,
        "strict": False,
        "markers": [],
        "definition": definition,
        "token": row.request_id.removeprefix("req_"),
        "message_id": row.request_id.replace("req_", "msg_"),
        "model": row.model,
        "input_estimate": 7,
        "is_whole": False,
        "max_calls": None,
        "taken_ids": [],
        "aliases": {},
    }
    tools = [{"name": tool["name"], "schema": tool["input_schema"]} for tool in TOOLS]
    read = decode_again(raw, reading, tools)
    content = TranscriptContent(
        **{
            "headers": {"user-agent": "claude-cli/2.0"},
            "request": '{"model": "harbor-model", "max_tokens": 100, "stream": true}',
            "tools": tools,
            "reading": reading,
            "raw": raw,
            "arrivals": [[0, 12.5]],
            "events": [stored_event(event) for event in read.events],
            "sent": read.sent,
            **(transcript or {}),
        },
    )
    Transcript.objects.create(exchange=row, packed=pack(content))
    return row


def leaked_kimi(**fields: Any) -> Exchange:
    """Create an exchange of a Kimi model under an unknown name: its markers reached the client."""
    return stored_exchange(stream({"content": KIMI}), leaked_format="kimi", **fields)


def failure_group(**fields: Any) -> FailureGroup:
    return FailureGroup.objects.create(
        **{
            "fingerprint": f"kimi|call_truncated|translation|test/{next(_numbers)}",
            "format": "kimi",
            "error_code": "call_truncated",
            "phase": "translation",
            "family": "moonshotai/kimi",
            "count": 1,
            "first_seen": NOW,
            "last_seen": NOW,
            **fields,
        }
    )
