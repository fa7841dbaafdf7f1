"""Derives the outcome of an exchange, and the phase in which it failed."""

from proxy.errors import ErrorCode, GatewayError
from proxy.models import Outcome, Phase

_CONNECTING = frozenset(
    {
        ErrorCode.UPSTREAM_CONNECT_TIMEOUT,
        ErrorCode.UPSTREAM_DNS,
        ErrorCode.UPSTREAM_MISCONFIGURED,
        ErrorCode.UPSTREAM_TLS,
        ErrorCode.UPSTREAM_UNREACHABLE,
    }
)
_TIMEOUTS = frozenset(
    {
        ErrorCode.FIRST_BYTE_TIMEOUT,
        ErrorCode.STREAM_TOO_LONG,
        ErrorCode.UPSTREAM_CONNECT_TIMEOUT,
        ErrorCode.UPSTREAM_IDLE,
        ErrorCode.UPSTREAM_NO_PROGRESS,
        ErrorCode.UPSTREAM_TIMEOUT,
    }
)
_READING = frozenset(
    {
        ErrorCode.BUFFER_LIMIT,
        ErrorCode.TRANSFORMATION_FAILED,
        ErrorCode.UPSTREAM_ANSWER_TOO_LARGE,
        ErrorCode.UPSTREAM_BAD_CHUNK,
        ErrorCode.UPSTREAM_BAD_UTF8,
        ErrorCode.UPSTREAM_EVENT_TOO_LARGE,
        ErrorCode.UPSTREAM_LINE_TOO_LONG,
    }
)


def outcome_of(error: GatewayError | None, phase: Phase, *, has_client: bool) -> Outcome:
    if not has_client:
        return Outcome.CLIENT_DISCONNECT
    if error is None:
        return Outcome.OK
    if error.code is ErrorCode.DRAINING:
        return Outcome.DRAINED
    if error.source == "client":
        return Outcome.CLIENT_ERROR
    if error.code in _TIMEOUTS:
        return Outcome.TIMEOUT
    if phase is Phase.TRANSLATION:
        return Outcome.TRANSFORM_FAILED
    return Outcome.UPSTREAM_ERROR if error.source == "upstream" else Outcome.GATEWAY_ERROR


def phase_of(error: GatewayError, *, has_started: bool) -> Phase:
    """The phase in which an exchange with a route failed. `has_started`: its answer had started."""
    if error.source in ("client", "config"):
        return Phase.REQUEST
    if error.code in _CONNECTING:
        return Phase.CONNECT
    if error.code in _READING or error.code.startswith("call_"):
        return Phase.TRANSLATION
    return Phase.BODY if has_started else Phase.ANSWER
