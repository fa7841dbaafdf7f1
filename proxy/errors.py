"""What the gateway answers instead of a message.

    GatewayError           status, kind, code, source: whose fault, and what a client may do
    └── UpstreamFailed     an attempt failed before its first byte: another may be tried

`code` is for machines and the audit: every one is listed in docs/errors.md. Errors of `formats`
become one of these through `GatewayError.of`; `proxy.views` makes them HTTP.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from formats import (
    STATUS,
    ClientError,
    EventOrderError,
    FailureKind,
    FormatsError,
    MessageFailed,
    UpstreamError,
)


class ErrorCode(StrEnum):
    """Everything that may go wrong; an API to clients' logs and the audit's filters.

    docs/errors.md says of each whose fault it is and what to do about it.
    """

    AMBIGUOUS_CREDENTIALS = "ambiguous_credentials"
    BODY_TOO_LARGE = "body_too_large"
    BUFFER_LIMIT = "buffer_limit"
    CALL_BAD_HEADER = "call_bad_header"
    CALL_INVALID_JSON = "call_invalid_json"
    CALL_MALFORMED = "call_malformed"
    CALL_MISSING_NAME = "call_missing_name"
    CALL_NON_OBJECT_ARGS = "call_non_object_args"
    CALL_TRUNCATED = "call_truncated"
    DRAINING = "draining"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    INTERNAL_ERROR = "internal_error"
    INVALID_KEY = "invalid_key"
    INVALID_REQUEST = "invalid_request"
    KEYS_UNAVAILABLE = "keys_unavailable"
    KEY_BUSY = "key_busy"
    KEY_RATE_LIMIT = "key_rate_limit"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    MODEL_NOT_FOUND = "model_not_found"
    NOT_FOUND = "not_found"
    NOT_READY = "not_ready"
    PROMPT_TOO_LONG = "prompt_too_long"
    REQUEST_TIMEOUT = "request_timeout"
    TRANSFORMATION_FAILED = "transformation_failed"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    UPSTREAM_AUTH = "upstream_auth"
    UPSTREAM_CONNECT_TIMEOUT = "upstream_connect_timeout"
    UPSTREAM_DNS = "upstream_dns"
    UPSTREAM_EMPTY = "upstream_empty"
    UPSTREAM_ENCODING = "upstream_encoding"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_IDLE = "upstream_idle"
    UPSTREAM_IS_GATEWAY = "upstream_is_gateway"
    UPSTREAM_MISCONFIGURED = "upstream_misconfigured"
    UPSTREAM_NOT_FOUND = "upstream_not_found"
    UPSTREAM_OVERLOADED = "upstream_overloaded"
    UPSTREAM_PROTOCOL = "upstream_protocol"
    UPSTREAM_RATE_LIMIT = "upstream_rate_limit"
    UPSTREAM_REDIRECT = "upstream_redirect"
    UPSTREAM_REFUSED = "upstream_refused"
    UPSTREAM_RESET = "upstream_reset"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_TLS = "upstream_tls"
    UPSTREAM_TOO_LARGE = "upstream_too_large"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"


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
                    code=code_of_kind(error.kind, str(error)),
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
            source="client" if code is ErrorCode.PROMPT_TOO_LONG else None,
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
            retries=failure.kind is FailureKind.OVERLOADED,
            falls_back=failure.kind is not FailureKind.INVALID_REQUEST,
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
