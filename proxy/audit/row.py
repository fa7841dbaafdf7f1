"""An exchange that has begun or ended → the fields of its row. No content, and nothing secret.

Names and messages come from clients and upstreams: they are cut to what a column holds, redacted,
and freed of characters that databases refuse.
"""

from collections.abc import Callable
from operator import itemgetter
from time import perf_counter
from typing import Any, TypeAlias

from proxy.audit.exchange import Exchange
from proxy.security.redaction import Redactor, storable_text

_MOST_TOKENS = 2**31 - 1
_MOST_NOTICES = 50
_MOST_TOGETHER = 4096
_SESSION = "x-claude-code-session-id"

_plain = str.__str__
"""A member of an enumeration as the string that it is; its `value` costs five times as much."""

Brief: TypeAlias = Callable[[str, int], str]
"""The beginning of what others wrote, so many characters at most, as it may be stored."""


def redactor_of(exchange: Exchange) -> Redactor:
    """One that knows the secrets of the client and of every upstream that was asked."""
    secrets = [*exchange.secrets]
    for tried, _ in exchange.attempts:
        secrets += tried.upstream.secrets()
    if exchange.route is not None:
        secrets += exchange.route.upstream.secrets()
    return Redactor(secrets)


def brief_of(exchange: Exchange, redactor: Redactor) -> Brief:
    """What makes the texts of an exchange's row.

    Nearly always they are clean, which is found out of all together at the cost of one.
    """
    headers, route = exchange.headers, exchange.route
    texts = [headers.get("user-agent", ""), headers.get(_SESSION, ""), exchange.model]
    if route is not None:
        texts += (route.model, exchange.served_by or "")
    if exchange.notices:
        texts += [notice.detail for notice in exchange.notices]
    together = "\n".join(texts)
    is_plain = exchange.error is None and not exchange.attempts and together.isascii()
    if is_plain and len(together) <= _MOST_TOGETHER and "\0" not in together:
        if redactor.is_clean_text(together):
            return _cut
    return lambda text, length: storable_text(redactor.brief(text, length)) if text else ""


def _cut(text: str, length: int) -> str:
    return text[:length]


def beginning(exchange: Exchange, brief: Brief) -> dict[str, Any]:
    """The columns that are known when a request was accepted."""
    headers, snapshot = exchange.headers, exchange.snapshot
    return {
        "request_id": exchange.request_id,
        "created_at": exchange.created_at,
        "key_id": exchange.key.id if exchange.key else None,
        "user_agent": brief(headers.get("user-agent", ""), 200),
        "session_id": brief(headers.get(_SESSION, ""), 80),
        "dialect": exchange.dialect,
        "model": brief(exchange.model, 200),
        "is_streaming": exchange.is_streaming,
        "input_estimate": _tokens(exchange.input_estimate),
        "gateway_ms": _ms(exchange.own_time),
        "bytes_in": exchange.bytes_in,
        "configuration_version": snapshot.version if snapshot else 0,
    }


def record(exchange: Exchange, status: int, brief: Brief) -> dict[str, Any]:
    """The columns of an exchange's row, in plain types, as a line of the journal has them."""
    route, error, usage = exchange.route, exchange.error, exchange.usage
    row = beginning(exchange, brief)
    row |= {
        "route": storable_text(route.pattern) if route else "",
        "upstream": storable_text(route.upstream.name) if route else "",
        "upstream_model": brief(route.model, 200) if route else "",
        "served_by": brief(exchange.served_by or "", 100),
        "format": route.format.format if route else "",
        "format_reason": storable_text(route.format.reason) if route else "",
        "status": status,
        "outcome": _plain(exchange.outcome),
        "error_code": _plain(error.code) if error else "",
        "error_source": error.source if error else "",
        "error_phase": _plain(exchange.phase) if error else "",
        "error_message": brief(str(error), 500) if error else "",
        "stop_reason": _plain(exchange.stop_reason) if exchange.stop_reason else "",
        "tool_calls": exchange.calls,
        "rescued_calls": exchange.rescued,
        "notices": _notices(exchange, brief) if exchange.notices else [],
        "leaked_format": storable_text(exchange.leaked_format),
        "attempts": _attempts(exchange, brief) if exchange.attempts else [],
        "input_tokens": _tokens(usage.input),
        "output_tokens": _tokens(usage.output),
        "cache_read_tokens": _tokens(usage.cache_read),
        "cache_creation_tokens": _tokens(usage.cache_creation),
        "first_byte_ms": _ms(exchange.first_byte),
        "duration_ms": _ms(perf_counter() - exchange.started),
        "bytes_upstream": exchange.bytes_upstream,
        "bytes_out": exchange.bytes_out,
    }
    return row


def _notices(exchange: Exchange, brief: Brief) -> list[list[Any]]:
    # In place of `most_common`, which makes a heap to keep them in the order that they have.
    counts = sorted(exchange.notices.items(), key=itemgetter(1), reverse=True)
    return [
        [_plain(notice.code), brief(notice.detail, 200), count]
        for notice, count in counts[:_MOST_NOTICES]
    ]


def _attempts(exchange: Exchange, brief: Brief) -> list[list[str]]:
    return [
        [
            storable_text(tried.upstream.name),
            brief(tried.model, 200),
            _plain(failed.code),
            brief(str(failed), 200),
        ]
        for tried, failed in exchange.attempts
        if failed is not exchange.error
    ]


def _tokens(count: int | None) -> int | None:
    """As an upstream counts them: any number at all."""
    return None if count is None else min(max(count, 0), _MOST_TOKENS)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
