"""Builds the row of an exchange: its columns in plain types, without content or secrets.

Names and messages come from clients and upstreams. These texts are redacted and truncated to the
size of the column, and characters that databases reject are removed.
"""

from operator import itemgetter
from time import perf_counter
from typing import Any

from proxy.audit.exchange import Exchange
from proxy.security.redaction import storable_text

_MAX_TOKENS = 2**31 - 1
_MAX_NOTICES = 50
_SESSION = "x-claude-code-session-id"

_plain = str.__str__
"""An enumeration's member as a plain string; five times as fast as `value`."""


def accepted_row(exchange: Exchange) -> dict[str, Any]:
    """The columns that are known when a request has been accepted."""
    headers, snapshot = exchange.request.headers, exchange.request.snapshot
    text = exchange.redactor.redact_column
    return {
        "request_id": exchange.request_id,
        "created_at": exchange.request.created_at,
        "key_id": exchange.request.key.id if exchange.request.key else None,
        "user_agent": text(headers.get("user-agent", ""), 200),
        "session_id": text(headers.get(_SESSION, ""), 80),
        "dialect": exchange.dialect,
        "model": text(exchange.request.model, 200),
        "is_streaming": exchange.request.is_streaming,
        "input_estimate": _tokens(exchange.request.input_estimate),
        "gateway_ms": _ms(exchange.transfer.own_time),
        "bytes_in": exchange.request.size,
        "configuration_version": snapshot.version if snapshot else 0,
    }


def ended_row(exchange: Exchange, status: int) -> dict[str, Any]:
    """All columns of an exchange that has ended."""
    route, error, usage = exchange.answer.route, exchange.error, exchange.answer.usage
    text = exchange.redactor.redact_column
    row = accepted_row(exchange)
    row |= {
        "route": storable_text(route.pattern) if route else "",
        "upstream": storable_text(route.upstream.name) if route else "",
        "upstream_model": text(route.model, 200) if route else "",
        "served_by": text(exchange.answer.served_by or "", 100),
        "format": route.format.format if route else "",
        "format_reason": storable_text(route.format.reason) if route else "",
        "status": status,
        "outcome": _plain(exchange.outcome),
        "error_code": _plain(error.code) if error else "",
        "error_source": error.source if error else "",
        "error_phase": _plain(exchange.phase) if error else "",
        "error_message": text(str(error), 500) if error else "",
        "stop_reason": _plain(exchange.answer.stop_reason) if exchange.answer.stop_reason else "",
        "tool_calls": exchange.answer.tool_calls,
        "rescued_calls": exchange.answer.rescued_calls,
        "notices": _notices(exchange) if exchange.answer.notices else [],
        "leaked_format": storable_text(exchange.answer.leaked_format),
        "family_read": storable_text(exchange.answer.family_read) or None,
        "attempts": _failed_attempts(exchange) if exchange.failed_attempts else [],
        "input_tokens": _tokens(usage.input),
        "output_tokens": _tokens(usage.output),
        "cache_read_tokens": _tokens(usage.cache_read),
        "cache_creation_tokens": _tokens(usage.cache_creation),
        "first_byte_ms": _ms(exchange.transfer.first_byte),
        "duration_ms": _ms(perf_counter() - exchange.transfer.started),
        "bytes_upstream": exchange.transfer.bytes_upstream,
        "bytes_out": exchange.transfer.bytes_out,
    }
    return row


def _notices(exchange: Exchange) -> list[list[Any]]:
    # Faster than `most_common`, which builds a heap.
    counts = sorted(exchange.answer.notices.items(), key=itemgetter(1), reverse=True)
    return [
        [_plain(notice.code), exchange.redactor.redact_column(notice.detail, 200), count]
        for notice, count in counts[:_MAX_NOTICES]
    ]


def _failed_attempts(exchange: Exchange) -> list[list[str]]:
    text = exchange.redactor.redact_column
    return [
        [
            storable_text(route.upstream.name),
            text(route.model, 200),
            _plain(error.code),
            text(str(error), 200),
        ]
        for route, error in exchange.failed_attempts
        if error is not exchange.error
    ]


def _tokens(count: int | None) -> int | None:
    """Token counts come from the upstream and may be any number."""
    return None if count is None else min(max(count, 0), _MAX_TOKENS)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
