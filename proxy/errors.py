"""What the gateway answers instead of a message.

    GatewayError           status, kind, code, source: whose fault, and what a client may do
    └── UpstreamFailed     an attempt failed before its first byte: another may be tried

`code` is for machines and the audit: every one is listed in docs/errors.md. Errors of `formats`
become one of these through `GatewayError.of`; `proxy.views` makes them HTTP.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from formats import (
    STATUS,
    ClientError,
    EventOrderError,
    FailureKind,
    FormatsError,
    UpstreamError,
)

Source: TypeAlias = Literal["client", "gateway", "upstream", "config"]


class GatewayError(Exception):
    source: Source = "gateway"

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind,
        code: str,
        status: int | None = None,
        source: Source | None = None,
        retry_after: int | None = None,
        may_retry: bool = True,
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
        self.details = details
        self.headers = headers or {}

    @classmethod
    def of(cls, error: FormatsError) -> "GatewayError":
        match error:
            case ClientError():
                return GatewayError(
                    str(error),
                    kind=error.kind,
                    code="invalid_request",
                    source="client",
                    details=error.details,
                )
            case UpstreamError():
                return UpstreamFailed(
                    str(error),
                    kind=error.kind,
                    code=code_of_kind(error.kind),
                    status=error.status,
                )
            case EventOrderError():
                return GatewayError(str(error), kind=error.kind, code="event_order")
        return GatewayError(str(error), kind=error.kind, code="internal")


class UpstreamFailed(GatewayError):
    """`retries`: the same upstream may be asked once more. `falls_back`: another may be."""

    source = "upstream"

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = FailureKind.UPSTREAM,
        code: str,
        status: int | None = None,
        retry_after: int | None = None,
        may_retry: bool = True,
        retries: bool = False,
        falls_back: bool = True,
    ) -> None:
        super().__init__(
            message,
            kind=kind,
            code=code,
            status=status,
            retry_after=retry_after,
            may_retry=may_retry,
        )
        self.retries = retries
        self.falls_back = falls_back


def code_of_kind(kind: FailureKind) -> str:
    """The code of a failure that an upstream reported itself."""
    return _CODES.get(kind, "upstream_error")


_CODES = {
    FailureKind.INVALID_REQUEST: "upstream_refused",
    FailureKind.NOT_FOUND: "upstream_not_found",
    FailureKind.TOO_LARGE: "upstream_too_large",
    FailureKind.RATE_LIMIT: "upstream_rate_limit",
    FailureKind.TRANSFORMATION: "transformation_failed",
    FailureKind.TIMEOUT: "upstream_timeout",
    FailureKind.OVERLOADED: "upstream_overloaded",
}
