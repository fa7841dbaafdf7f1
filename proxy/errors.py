"""Errors that the gateway answers with: the codes, the table of their meanings, the exceptions.

    GatewayError           an error of any source
    └── UpstreamFailed     an upstream failed before its first byte: another attempt may be made

`ERRORS` has one row per code: HTTP status, kind, source, whether a client should retry, what
happened and what to do. Raise `GatewayError(ErrorCode.X, "detail")`; keywords override the row only
where the value is known at run time. docs/errors.md is generated from the table by
`python -m tests.support.errors_page`. Only `proxy.serving.error_response` turns these exceptions
into HTTP responses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from formats import (
    STATUS,
    AnswerFault,
    ClientError,
    FailureKind,
    FormatsError,
    MessageFailed,
    TooComplex,
    UpstreamError,
)


class ErrorCode(StrEnum):
    """Machine-readable code of an error: part of the API, the audit's filters and the log."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSpec:
    """One row of the table of errors."""

    status: int
    kind: FailureKind
    source: Source
    """The party at fault, for the header `x-athena-error-source` and the audit."""
    meaning: str
    """One sentence for support staff. `{upstream}` and `{format}` are replaced by their names."""
    remedy: str
    """The next step, for docs/errors.md."""
    should_retry: bool = True
    """False sends `x-should-retry: false`: the same request would fail again."""
    retry_same_upstream: bool = False
    """A second attempt at the same upstream is likely to succeed."""
    retry_after: int | None = None
    """Seconds."""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_audit_only: bool = False
    """The client cannot be told: its connection is gone."""


ERRORS: Mapping[ErrorCode, ErrorSpec] = {
    ErrorCode.AMBIGUOUS_CREDENTIALS: ErrorSpec(
        status=400,
        kind=FailureKind.INVALID_REQUEST,
        source="client",
        meaning="The client sent two different keys.",
        remedy="Send one of `authorization` and `x-api-key`, or the same key in both.",
        should_retry=False,
    ),
    ErrorCode.AT_CAPACITY: ErrorSpec(
        status=503,
        kind=FailureKind.OVERLOADED,
        source="gateway",
        meaning="The gateway was at its limit of concurrent requests, or out of file descriptors.",
        remedy=(
            "Retry after `retry-after` seconds. Add a node, or raise *concurrent requests* in the "
            "gateway settings, or the limit of file descriptors if the log mentions them."
        ),
        retry_after=1,
    ),
    ErrorCode.BODY_TOO_LARGE: ErrorSpec(
        status=413,
        kind=FailureKind.TOO_LARGE,
        source="client",
        meaning="The request was larger than the gateway accepts.",
        remedy="Compact the conversation, or raise the limit in the gateway settings.",
        should_retry=False,
    ),
    ErrorCode.BUFFER_LIMIT: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="More of the answer had to be buffered than {format} allows.",
        remedy=(
            "Read the transcript. If the answer was valid, raise the buffer limit of the format."
        ),
    ),
    ErrorCode.CALL_BAD_HEADER: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="The model started a tool call without naming a tool.",
        remedy=(
            "Replay the answer with another format, or add the markers that the model writes to "
            "the format."
        ),
    ),
    ErrorCode.CALL_INVALID_JSON: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="The model wrote a tool call whose arguments are not valid JSON.",
        remedy="Retry, or use another model. The gateway does not repair arguments.",
    ),
    ErrorCode.CALL_MALFORMED: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="The model wrote a tool call that does not follow the grammar of {format}.",
        remedy="Replay the answer with another format.",
    ),
    ErrorCode.CALL_MISSING_NAME: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="The model wrote a tool call without a name.",
        remedy="Retry.",
    ),
    ErrorCode.CALL_NON_OBJECT_ARGS: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="The model wrote a tool call whose arguments are not a JSON object.",
        remedy="Retry.",
    ),
    ErrorCode.CALL_TRUNCATED: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="The answer stopped in the middle of a tool call.",
        remedy="Retry. An incomplete call is never run.",
    ),
    ErrorCode.CLIENT_STALLED: ErrorSpec(
        status=504,
        kind=FailureKind.TIMEOUT,
        source="client",
        meaning="The client stopped reading its answer, and the gateway closed the connection.",
        remedy=(
            "Check the program that reads the stream, or raise *stall timeout* in the gateway "
            "settings. Both connections are closed, so this code appears in the audit only."
        ),
        is_audit_only=True,
    ),
    ErrorCode.DRAINING: ErrorSpec(
        status=503,
        kind=FailureKind.OVERLOADED,
        source="gateway",
        meaning="The gateway was restarting.",
        remedy=(
            "Retry: another process will answer. While it stops, the gateway rejects new "
            "requests, and aborts answers that outlast the drain time."
        ),
        retry_after=2,
        headers={"connection": "close"},
    ),
    ErrorCode.FIRST_BYTE_TIMEOUT: ErrorSpec(
        status=504,
        kind=FailureKind.TIMEOUT,
        source="upstream",
        meaning="{upstream} did not start to answer in time.",
        remedy="Retry, or raise the first-byte timeout of the upstream.",
    ),
    ErrorCode.HEADERS_TOO_LARGE: ErrorSpec(
        status=431,
        kind=FailureKind.INVALID_REQUEST,
        source="client",
        meaning="The headers of the request were too many or too long.",
        remedy="Send fewer headers, or raise the limits in the gateway settings.",
        should_retry=False,
    ),
    ErrorCode.INTERNAL_ERROR: ErrorSpec(
        status=500,
        kind=FailureKind.INTERNAL,
        source="gateway",
        meaning="The gateway failed because of a defect of its own.",
        remedy="Search the log of the gateway for the request id.",
    ),
    ErrorCode.INVALID_KEY: ErrorSpec(
        status=401,
        kind=FailureKind.AUTHENTICATION,
        source="client",
        meaning="The client key is missing, unknown, expired or revoked.",
        remedy="Read the message: it names the header. An operator creates keys in the admin.",
        should_retry=False,
        headers={"www-authenticate": "Bearer"},
    ),
    ErrorCode.INVALID_REQUEST: ErrorSpec(
        status=400,
        kind=FailureKind.INVALID_REQUEST,
        source="client",
        meaning="The request is malformed.",
        remedy="Correct the request. The message names the place in its JSON.",
    ),
    ErrorCode.JSON_TOO_COMPLEX: ErrorSpec(
        status=400,
        kind=FailureKind.INVALID_REQUEST,
        source="client",
        meaning="The JSON of the request is nested too deeply or has too many values.",
        remedy="Simplify the request, or raise the limits in the gateway settings.",
        should_retry=False,
    ),
    ErrorCode.KEY_BUSY: ErrorSpec(
        status=429,
        kind=FailureKind.RATE_LIMIT,
        source="client",
        meaning="The client key already had its maximum number of concurrent requests.",
        remedy="Retry when one of them has ended, or ask an operator for a higher limit.",
        retry_after=1,
    ),
    ErrorCode.KEY_RATE_LIMIT: ErrorSpec(
        status=429,
        kind=FailureKind.RATE_LIMIT,
        source="client",
        meaning="The client key reached its limit of requests per minute.",
        remedy="Wait `retry-after` seconds, or ask an operator for a higher limit.",
    ),
    ErrorCode.KEY_REVOKED: ErrorSpec(
        status=401,
        kind=FailureKind.AUTHENTICATION,
        source="client",
        meaning="The client key was revoked while the answer was being sent.",
        remedy="Get another key from an operator. In a stream this is an error event.",
        should_retry=False,
    ),
    ErrorCode.KEYS_UNAVAILABLE: ErrorSpec(
        status=503,
        kind=FailureKind.OVERLOADED,
        source="gateway",
        meaning="The key could not be checked because the database was unavailable.",
        remedy="Retry. Keys that were used recently are in memory and keep working.",
        retry_after=2,
    ),
    ErrorCode.MALFORMED_HTTP: ErrorSpec(
        status=400,
        kind=FailureKind.INVALID_REQUEST,
        source="client",
        meaning="The client sent a request that is not well-formed HTTP.",
        remedy=(
            "Fix the client, or the proxy in front of the gateway. Conflicting lengths and "
            "trailers are rejected too. The connection is closed."
        ),
        should_retry=False,
    ),
    ErrorCode.METHOD_NOT_ALLOWED: ErrorSpec(
        status=405,
        kind=FailureKind.INVALID_REQUEST,
        source="client",
        meaning="The client used a method that this path does not support.",
        remedy="Use a method that the header `allow` lists.",
        should_retry=False,
    ),
    ErrorCode.MODEL_NOT_ALLOWED: ErrorSpec(
        status=403,
        kind=FailureKind.PERMISSION,
        source="client",
        meaning="The client key is not allowed to use this model.",
        remedy="Use another model, or ask an operator.",
        should_retry=False,
    ),
    ErrorCode.MODEL_NOT_FOUND: ErrorSpec(
        status=404,
        kind=FailureKind.NOT_FOUND,
        source="config",
        meaning="No route to an active upstream matches this model.",
        remedy="Create a route or activate its upstream in the admin.",
    ),
    ErrorCode.NOT_FOUND: ErrorSpec(
        status=404,
        kind=FailureKind.NOT_FOUND,
        source="client",
        meaning="The requested path does not exist.",
        remedy=(
            "Check the base URL: Anthropic's SDKs expect it without `/v1`, OpenAI's SDKs with it."
        ),
        should_retry=False,
    ),
    ErrorCode.NOT_READY: ErrorSpec(
        status=503,
        kind=FailureKind.OVERLOADED,
        source="gateway",
        meaning="The gateway had just started and had not loaded its configuration.",
        remedy="Retry in a moment, and check `/readyz`.",
        retry_after=1,
    ),
    ErrorCode.PROMPT_TOO_LONG: ErrorSpec(
        status=400,
        kind=FailureKind.INVALID_REQUEST,
        source="client",
        meaning="The conversation is too long for the model.",
        remedy=(
            "Compact the conversation; Claude Code does this by itself. The message always "
            "starts with `prompt is too long`."
        ),
    ),
    ErrorCode.REQUEST_TIMEOUT: ErrorSpec(
        status=408,
        kind=FailureKind.TIMEOUT,
        source="client",
        meaning="The client started a request and did not finish it in time.",
        remedy=(
            "Retry. The limit is *request timeout* in the gateway settings, 30 s by default; it "
            "is shorter while the gateway stops."
        ),
    ),
    ErrorCode.STREAM_TOO_LONG: ErrorSpec(
        status=504,
        kind=FailureKind.TIMEOUT,
        source="upstream",
        meaning="The answer of {upstream} did not end in time.",
        remedy="Ask for less, or raise the total timeout of the upstream.",
    ),
    ErrorCode.TRANSFORMATION_FAILED: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="The answer of the model could not be read as {format}.",
        remedy="Check the settings of the format; a `strict` format rejects more.",
    ),
    ErrorCode.UNSUPPORTED_ENCODING: ErrorSpec(
        status=415,
        kind=FailureKind.INVALID_REQUEST,
        source="client",
        meaning="The client compressed its request, which is not supported.",
        remedy="Send the body uncompressed.",
        should_retry=False,
    ),
    ErrorCode.UPSTREAM_ANSWER_TOO_LARGE: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="The answer was too large to be held in memory as a whole.",
        remedy="Ask for a stream, or raise the limit in the gateway settings.",
    ),
    ErrorCode.UPSTREAM_AUTH: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="{upstream} rejected the API key or account of the gateway.",
        remedy="Enter another key for the upstream.",
        should_retry=False,
    ),
    ErrorCode.UPSTREAM_BAD_CHUNK: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="{upstream} sent data that is not an answer of its dialect.",
        remedy=(
            "Check the dialect of the upstream, and report the data to its operator; it is in "
            "the transcript."
        ),
    ),
    ErrorCode.UPSTREAM_BAD_UTF8: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="{upstream} sent bytes that are not UTF-8.",
        remedy="Report it to the operator of the upstream.",
    ),
    ErrorCode.UPSTREAM_CONNECT_TIMEOUT: ErrorSpec(
        status=504,
        kind=FailureKind.TIMEOUT,
        source="upstream",
        meaning="{upstream} did not accept the connection in time.",
        remedy="Check the address of the upstream, and the network.",
    ),
    ErrorCode.UPSTREAM_DNS: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="The host name of {upstream} could not be resolved.",
        remedy="Check the address of the upstream.",
        retry_same_upstream=True,
    ),
    ErrorCode.UPSTREAM_EMPTY: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="{upstream} finished with an empty answer.",
        remedy=(
            "Watch the upstream: a degraded one often does this. The fallback of the route was "
            "tried."
        ),
    ),
    ErrorCode.UPSTREAM_ENCODING: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="{upstream} compressed its answer although the gateway did not allow it.",
        remedy="Disable compression at the upstream.",
    ),
    ErrorCode.UPSTREAM_ERROR: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="{upstream} reported an error.",
        remedy="Retry. The message comes from the upstream, and the status too if it is 500.",
    ),
    ErrorCode.UPSTREAM_EVENT_TOO_LARGE: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="{upstream} sent an event that exceeds the limit of the gateway.",
        remedy="If the event was valid, raise the limit in the gateway settings.",
    ),
    ErrorCode.UPSTREAM_FORBIDDEN_ADDRESS: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="config",
        meaning="The gateway is not allowed to connect to the address of {upstream}.",
        remedy=(
            "Enter another address, or allow this one in `ATHENA_ALLOW_PRIVATE_UPSTREAMS`. "
            "Link-local and metadata addresses are never allowed."
        ),
        should_retry=False,
    ),
    ErrorCode.UPSTREAM_IDLE: ErrorSpec(
        status=504,
        kind=FailureKind.TIMEOUT,
        source="upstream",
        meaning="{upstream} started to answer and then sent nothing more.",
        remedy="Retry, or raise the idle timeout of the upstream.",
    ),
    ErrorCode.UPSTREAM_IS_GATEWAY: ErrorSpec(
        status=508,
        kind=FailureKind.INVALID_REQUEST,
        source="config",
        meaning="The address of {upstream} leads back to this gateway.",
        remedy="Enter the base URL of another server.",
        should_retry=False,
    ),
    ErrorCode.UPSTREAM_LINE_TOO_LONG: ErrorSpec(
        status=502,
        kind=FailureKind.TRANSFORMATION,
        source="upstream",
        meaning="{upstream} sent a line that exceeds the limit of the gateway.",
        remedy="If the line was valid, raise the limit in the gateway settings.",
    ),
    ErrorCode.UPSTREAM_MISCONFIGURED: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="The gateway has no usable API key for {upstream}.",
        remedy="Open the upstream in the admin.",
        should_retry=False,
    ),
    ErrorCode.UPSTREAM_NO_PROGRESS: ErrorSpec(
        status=504,
        kind=FailureKind.TIMEOUT,
        source="upstream",
        meaning="{upstream} sent only comments or pings, and no content.",
        remedy="Retry, or raise the progress timeout of the upstream.",
    ),
    ErrorCode.UPSTREAM_NOT_FOUND: ErrorSpec(
        status=404,
        kind=FailureKind.NOT_FOUND,
        source="upstream",
        meaning="{upstream} does not have this model or endpoint.",
        remedy="Check the model of the route. The message comes from the upstream.",
    ),
    ErrorCode.UPSTREAM_OVERLOADED: ErrorSpec(
        status=529,
        kind=FailureKind.OVERLOADED,
        source="upstream",
        meaning="{upstream} was overloaded.",
        remedy="Retry. Clients of the OpenAI dialect get 503 instead of 529.",
    ),
    ErrorCode.UPSTREAM_PROTOCOL: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="The server at the address of {upstream} does not speak HTTP.",
        remedy="Check the address of the upstream.",
    ),
    ErrorCode.UPSTREAM_RATE_LIMIT: ErrorSpec(
        status=429,
        kind=FailureKind.RATE_LIMIT,
        source="upstream",
        meaning="{upstream} limited the request rate of the gateway.",
        remedy="Wait `retry-after` seconds.",
    ),
    ErrorCode.UPSTREAM_REDIRECT: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="{upstream} answered with a redirect.",
        remedy="Enter the address that the redirect leads to.",
        should_retry=False,
    ),
    ErrorCode.UPSTREAM_REFUSED: ErrorSpec(
        status=400,
        kind=FailureKind.INVALID_REQUEST,
        source="upstream",
        meaning="{upstream} rejected the request.",
        remedy="Read the message: it comes from the upstream.",
    ),
    ErrorCode.UPSTREAM_RESET: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="The connection to {upstream} was lost.",
        remedy="Retry. The gateway retried once itself if no answer had started.",
        retry_same_upstream=True,
    ),
    ErrorCode.UPSTREAM_TIMEOUT: ErrorSpec(
        status=504,
        kind=FailureKind.TIMEOUT,
        source="upstream",
        meaning="{upstream} reported a timeout of its own.",
        remedy="Retry.",
    ),
    ErrorCode.UPSTREAM_TLS: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="The TLS certificate of {upstream} is not trusted, or its TLS is broken.",
        remedy="Fix TLS at the upstream. The gateway never skips the check.",
    ),
    ErrorCode.UPSTREAM_TOO_LARGE: ErrorSpec(
        status=413,
        kind=FailureKind.TOO_LARGE,
        source="upstream",
        meaning="The request is larger than {upstream} accepts.",
        remedy="Compact the conversation.",
    ),
    ErrorCode.UPSTREAM_TRUNCATED: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="The answer of {upstream} was empty, or broke off before its end.",
        remedy="Retry.",
        retry_same_upstream=True,
    ),
    ErrorCode.UPSTREAM_UNREACHABLE: ErrorSpec(
        status=502,
        kind=FailureKind.UPSTREAM,
        source="upstream",
        meaning="No connection to {upstream} could be made.",
        remedy="Check the address of the upstream.",
        retry_same_upstream=True,
    ),
    ErrorCode.WORKER_LOST: ErrorSpec(
        status=500,
        kind=FailureKind.INTERNAL,
        source="gateway",
        meaning="The gateway process was killed or ran out of memory.",
        remedy=(
            "Read the log of the operating system, and retry. This code appears in the audit "
            "only; how much of the answer was sent is not known."
        ),
        is_audit_only=True,
    ),
}


class GatewayError(Exception):
    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        kind: FailureKind | None = None,
        status: int | None = None,
        source: Source | None = None,
        should_retry: bool | None = None,
        retry_after: int | None = None,
        param: str | None = None,
        details: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Take everything that is not given from the code's row in `ERRORS`.

        `param` is the place in the request's JSON that is at fault. A `kind` without a `status`
        has the usual status of that kind.
        """
        super().__init__(message)
        spec = ERRORS[code]
        self.code = code
        self.kind = kind or spec.kind
        self.status = status or (STATUS[kind] if kind else spec.status)
        self.source = source or spec.source
        self.should_retry = spec.should_retry if should_retry is None else should_retry
        self.retry_after = spec.retry_after if retry_after is None else retry_after
        self.param = param
        self.details = details
        self.headers = {**spec.headers, **(headers or {})}

    @classmethod
    def of(cls, error: FormatsError) -> "GatewayError":
        """Convert an error of the `formats` package."""
        message = str(error)
        match error:
            case TooComplex():
                return GatewayError(ErrorCode.JSON_TOO_COMPLEX, message)
            case ClientError():
                return GatewayError(
                    ErrorCode.INVALID_REQUEST,
                    message,
                    param=error.path or None,
                    details=error.details,
                )
            case UpstreamError():
                code = _answer_code(error.kind, message, error.fault)
                return UpstreamFailed(code, message, kind=error.kind, status=error.status)
        return GatewayError(ErrorCode.INTERNAL_ERROR, message)


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An upstream's error response, for clients of the same dialect."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class UpstreamFailed(GatewayError):
    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        kind: FailureKind | None = None,
        status: int | None = None,
        retry_after: int | None = None,
        retry_same_upstream: bool | None = None,
        raw: bytes = b"",
        error_response: ErrorResponse | None = None,
        rejects_thinking: bool = False,
    ) -> None:
        """`raw` is the body of the upstream's error response, for the transcript. `error_response`
        is what a client of the upstream's dialect gets instead of the gateway's own response.
        `rejects_thinking`: the upstream rejected the signature of a thinking block."""
        super().__init__(code, message, kind=kind, status=status, retry_after=retry_after)
        self.raw = raw
        self.error_response = error_response
        self.rejects_thinking = rejects_thinking
        self.retry_same_upstream = (
            ERRORS[code].retry_same_upstream if retry_same_upstream is None else retry_same_upstream
        )

    @property
    def allows_fallback(self) -> bool:
        """A request that one upstream rejects as invalid is not sent to another."""
        return self.kind is not FailureKind.INVALID_REQUEST

    @classmethod
    def of_answer(cls, failure: MessageFailed, code: ErrorCode) -> "UpstreamFailed":
        """Convert a failure inside an answer whose status was 200."""
        is_overloaded = failure.kind is FailureKind.OVERLOADED
        return cls(
            code,
            failure.message,
            kind=failure.kind,
            retry_same_upstream=True if is_overloaded else None,
        )


def code_of(failure: MessageFailed) -> ErrorCode:
    """Return the code of a failed answer: its fault, or else the code of its kind."""
    return _answer_code(failure.kind, failure.message, failure.fault)


def _answer_code(kind: FailureKind, message: str, fault: AnswerFault | None) -> ErrorCode:
    return ErrorCode(fault.value) if fault else code_of_kind(kind, message)


def code_of_kind(kind: FailureKind, message: str) -> ErrorCode:
    """Return the code of a failure that the upstream reported itself."""
    if kind is FailureKind.INVALID_REQUEST and message.startswith("prompt is too long"):
        return ErrorCode.PROMPT_TOO_LONG
    return _CODE_OF_KIND.get(kind, ErrorCode.UPSTREAM_ERROR)


_CODE_OF_KIND = {
    FailureKind.INVALID_REQUEST: ErrorCode.UPSTREAM_REFUSED,
    FailureKind.NOT_FOUND: ErrorCode.UPSTREAM_NOT_FOUND,
    FailureKind.TOO_LARGE: ErrorCode.UPSTREAM_TOO_LARGE,
    FailureKind.RATE_LIMIT: ErrorCode.UPSTREAM_RATE_LIMIT,
    FailureKind.TRANSFORMATION: ErrorCode.TRANSFORMATION_FAILED,
    FailureKind.TIMEOUT: ErrorCode.UPSTREAM_TIMEOUT,
    FailureKind.OVERLOADED: ErrorCode.UPSTREAM_OVERLOADED,
}
