"""An exchange that has ended → the fields of its row. No content, and nothing secret.

Names and messages come from clients and upstreams: they are cut to what a column holds, redacted,
and freed of characters that databases refuse.
"""

from time import perf_counter
from typing import Any

from proxy.exchange import Exchange
from proxy.redaction import Redactor, storable

_MOST_TOKENS = 2**31 - 1
_MOST_NOTICES = 50


def redactor_of(exchange: Exchange) -> Redactor:
    """One that knows the secrets of the client and of every upstream that was asked."""
    asked = [tried for tried, _ in exchange.attempts]
    if exchange.route is not None:
        asked.append(exchange.route)
    upstreams = {route.upstream.name: route.upstream for route in asked}
    secrets = [secret for upstream in upstreams.values() for secret in upstream.secrets()]
    return Redactor([*exchange.secrets, *secrets])


def record(exchange: Exchange, status: int, redactor: Redactor) -> dict[str, Any]:
    """The columns of an exchange's row."""
    route, error, usage = exchange.route, exchange.error, exchange.usage
    headers, snapshot = exchange.headers, exchange.snapshot

    def text(value: str, length: int) -> str:
        return storable(redactor.text(value))[:length]

    return {
        "request_id": exchange.request_id,
        "created_at": exchange.created_at,
        "key_id": exchange.key.id if exchange.key else None,
        "user_agent": text(headers.get("user-agent", ""), 200),
        "session_id": text(headers.get("x-claude-code-session-id", ""), 80),
        "dialect": exchange.dialect,
        "model": text(exchange.model, 200),
        "route": route.pattern if route else "",
        "upstream": route.upstream.name if route else "",
        "upstream_model": text(route.model, 200) if route else "",
        "served_by": text(exchange.served_by or "", 100),
        "format": route.format.format if route else "",
        "format_reason": route.format.reason if route else "",
        "is_streaming": exchange.is_streaming,
        "status": status,
        "outcome": exchange.outcome,
        "error_code": error.code if error else "",
        "error_source": error.source if error else "",
        "error_phase": exchange.phase if error else "",
        "error_message": text(str(error), 500) if error else "",
        "stop_reason": exchange.stop_reason or "",
        "tool_calls": exchange.calls,
        "rescued_calls": exchange.rescued,
        "notices": [
            [notice.code, text(notice.detail, 200), count]
            for notice, count in exchange.notices.most_common(_MOST_NOTICES)
        ],
        "leaked_format": exchange.leaked_format,
        "attempts": [
            [tried.upstream.name, text(tried.model, 200), failed.code, text(str(failed), 200)]
            for tried, failed in exchange.attempts
            if failed is not error
        ],
        "input_tokens": _tokens(usage.input),
        "output_tokens": _tokens(usage.output),
        "cache_read_tokens": _tokens(usage.cache_read),
        "cache_creation_tokens": _tokens(usage.cache_creation),
        "input_estimate": _tokens(exchange.input_estimate),
        "first_byte_ms": _ms(exchange.first_byte),
        "duration_ms": _ms(perf_counter() - exchange.started),
        "gateway_ms": _ms(exchange.own_time),
        "bytes_in": exchange.bytes_in,
        "bytes_upstream": exchange.bytes_upstream,
        "bytes_out": exchange.bytes_out,
        "configuration_version": snapshot.version if snapshot else 0,
    }


def _tokens(count: int | None) -> int | None:
    """As an upstream counts them: any number at all."""
    return None if count is None else min(max(count, 0), _MOST_TOKENS)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
