"""What the gateway answers instead of a message.

    GatewayError           status, kind, code, source: whose fault, and what a client may do
    └── UpstreamFailed     an attempt failed before its first byte: another may be tried

`code` is for machines and the audit: every one is listed in docs/errors.md. Errors of `formats`
become one of these through `GatewayError.of`; `proxy.serving.views` makes them HTTP.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from formats import (
    STATUS,
    AnswerFault,
    ClientError,
    EventOrderError,
    FailureKind,
    FormatsError,
    MessageFailed,
    TooComplex,
    UpstreamError,
)


class ErrorCode(StrEnum):
    """Everything that may go wrong; an API to clients' logs and the audit's filters.

    docs/errors.md says of each whose fault it is and what to do about it.
    """

    AMBIGUOUS_CREDENTIALS = "ambiguous_credentials"
    AT_CAPACITY = "at_capacity"
    BODY_TOO_LARGE = "body_too_large"
    BUFFER_LIMIT = "buffer_limit"
    CALL_BAD_HEADER = "call_bad_header"
    CALL_INVALID_JSON = "call_invalid_json"
    CALL_MALFORMED = "call_malformed"
    CALL_MISSING_NAME = "call_missing_name"
    CALL_NON_OBJECT_ARGS = "call_non_object_args"
    CALL_TRUNCATED = "call_truncated"
    CLIENT_STALLED = "client_stalled"
    DRAINING = "draining"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    HEADERS_TOO_LARGE = "headers_too_large"
    INTERNAL_ERROR = "internal_error"
    INVALID_KEY = "invalid_key"
    INVALID_REQUEST = "invalid_request"
    JSON_TOO_COMPLEX = "json_too_complex"
    KEYS_UNAVAILABLE = "keys_unavailable"
    KEY_BUSY = "key_busy"
    KEY_RATE_LIMIT = "key_rate_limit"
    KEY_REVOKED = "key_revoked"
    MALFORMED_HTTP = "malformed_http"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    MODEL_NOT_FOUND = "model_not_found"
    NOT_FOUND = "not_found"
    NOT_READY = "not_ready"
    PROMPT_TOO_LONG = "prompt_too_long"
    REQUEST_TIMEOUT = "request_timeout"
    STREAM_TOO_LONG = "stream_too_long"
    TRANSFORMATION_FAILED = "transformation_failed"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    UPSTREAM_ANSWER_TOO_LARGE = "upstream_answer_too_large"
    UPSTREAM_AUTH = "upstream_auth"
    UPSTREAM_BAD_CHUNK = "upstream_bad_chunk"
    UPSTREAM_BAD_UTF8 = "upstream_bad_utf8"
    UPSTREAM_CONNECT_TIMEOUT = "upstream_connect_timeout"
    UPSTREAM_DNS = "upstream_dns"
    UPSTREAM_EMPTY = "upstream_empty"
    UPSTREAM_ENCODING = "upstream_encoding"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_EVENT_TOO_LARGE = "upstream_event_too_large"
    UPSTREAM_FORBIDDEN_ADDRESS = "upstream_forbidden_address"
    UPSTREAM_IDLE = "upstream_idle"
    UPSTREAM_IS_GATEWAY = "upstream_is_gateway"
    UPSTREAM_LINE_TOO_LONG = "upstream_line_too_long"
    UPSTREAM_MISCONFIGURED = "upstream_misconfigured"
    UPSTREAM_NOT_FOUND = "upstream_not_found"
    UPSTREAM_NO_PROGRESS = "upstream_no_progress"
    UPSTREAM_OVERLOADED = "upstream_overloaded"
    UPSTREAM_PROTOCOL = "upstream_protocol"
    UPSTREAM_RATE_LIMIT = "upstream_rate_limit"
    UPSTREAM_REDIRECT = "upstream_redirect"
    UPSTREAM_REFUSED = "upstream_refused"
    UPSTREAM_RESET = "upstream_reset"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_TLS = "upstream_tls"
    UPSTREAM_TOO_LARGE = "upstream_too_large"
    UPSTREAM_TRUNCATED = "upstream_truncated"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    WORKER_LOST = "worker_lost"


Source: TypeAlias = Literal["client", "gateway", "upstream", "config"]


class GatewayError(Exception):
    source: Source = "gateway"

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind,
        code: ErrorCode,
        status: int | None = None,
        source: Source | None = None,
        retry_after: int | None = None,
        may_retry: bool = True,
        param: str | None = None,
        details: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.status = status or STATUS[kind]
        self.source = source or self.source
        self.retry_after = retry_after
        #: False tells clients that the same request will fail again.
        self.may_retry = may_retry
        #: The place in the request that is at fault.
        self.param = param
        self.details = details
        self.headers = headers or {}

    @classmethod
    def of(cls, error: FormatsError) -> "GatewayError":
        match error:
            case TooComplex():
                return GatewayError(
                    str(error),
                    kind=error.kind,
                    code=ErrorCode.JSON_TOO_COMPLEX,
                    source="client",
                    may_retry=False,
                )
            case ClientError():
                return GatewayError(
                    str(error),
                    kind=error.kind,
                    code=ErrorCode.INVALID_REQUEST,
                    source="client",
                    param=error.path or None,
                    details=error.details,
                )
            case UpstreamError():
                return UpstreamFailed(
                    str(error),
                    kind=error.kind,
                    code=_code(error.kind, str(error), error.fault),
                    status=error.status,
                )
            case EventOrderError():
                return GatewayError(str(error), kind=error.kind, code=ErrorCode.INTERNAL_ERROR)
        return GatewayError(str(error), kind=error.kind, code=ErrorCode.INTERNAL_ERROR)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An upstream's own answer to a request that it refused."""

    status: int
    body: bytes
    headers: Mapping[str, str]


# Whose fault it is, where it is not the upstream's.
_SOURCES: dict[ErrorCode, Source] = {
    ErrorCode.PROMPT_TOO_LONG: "client",
    ErrorCode.UPSTREAM_FORBIDDEN_ADDRESS: "config",
}


class UpstreamFailed(GatewayError):
    """`retries`: the same upstream may be asked once more. `falls_back`: another may be."""

    source = "upstream"

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = FailureKind.UPSTREAM,
        code: ErrorCode,
        status: int | None = None,
        retry_after: int | None = None,
        may_retry: bool = True,
        retries: bool = False,
        falls_back: bool = True,
        raw: bytes = b"",
        refusal: Refusal | None = None,
        refuses_thinking: bool = False,
    ) -> None:
        """`raw` is the body of a refusal, for the transcript; `refusal` is what a client of the
        upstream's dialect may be told as it is."""
        super().__init__(
            message,
            kind=kind,
            code=code,
            status=status,
            retry_after=retry_after,
            may_retry=may_retry,
            source=_SOURCES.get(code),
        )
        self.raw = raw
        self.refusal = refusal
        self.refuses_thinking = refuses_thinking
        self.retries = retries
        self.falls_back = falls_back

    @classmethod
    def of_answer(cls, failure: MessageFailed, code: ErrorCode) -> "UpstreamFailed":
        """An answer that said that all is well, and then failed."""
        return cls(
            failure.message,
            kind=failure.kind,
            code=code,
            retries=failure.kind is FailureKind.OVERLOADED or code is ErrorCode.UPSTREAM_TRUNCATED,
            falls_back=failure.kind is not FailureKind.INVALID_REQUEST,
        )


def code_of(failure: MessageFailed) -> ErrorCode:
    """The code of a failed answer: its fault, or what the upstream reported itself."""
    return _code(failure.kind, failure.message, failure.fault)


def _code(kind: FailureKind, message: str, fault: AnswerFault | None) -> ErrorCode:
    return ErrorCode(fault.value) if fault else code_of_kind(kind, message)


def at_capacity() -> GatewayError:
    """For a request too many, whoever asks: another node may have room, or this one in a moment."""
    return GatewayError(
        "the gateway is answering as many requests as it can: try again",
        kind=FailureKind.OVERLOADED,
        status=503,
        code=ErrorCode.AT_CAPACITY,
        retry_after=1,
    )


def code_of_kind(kind: FailureKind, message: str) -> ErrorCode:
    """The code of a failure that an upstream reported itself."""
    if kind is FailureKind.INVALID_REQUEST and message.startswith("prompt is too long"):
        return ErrorCode.PROMPT_TOO_LONG
    return _CODES.get(kind, ErrorCode.UPSTREAM_ERROR)


_CODES = {
    FailureKind.INVALID_REQUEST: ErrorCode.UPSTREAM_REFUSED,
    FailureKind.NOT_FOUND: ErrorCode.UPSTREAM_NOT_FOUND,
    FailureKind.TOO_LARGE: ErrorCode.UPSTREAM_TOO_LARGE,
    FailureKind.RATE_LIMIT: ErrorCode.UPSTREAM_RATE_LIMIT,
    FailureKind.TRANSFORMATION: ErrorCode.TRANSFORMATION_FAILED,
    FailureKind.TIMEOUT: ErrorCode.UPSTREAM_TIMEOUT,
    FailureKind.OVERLOADED: ErrorCode.UPSTREAM_OVERLOADED,
}
