"""Exceptions of this library, by whose fault they are, and the limits of one stream.

    FormatsError
    ├── ClientError        the request is malformed: 400, and the message names the JSON path
    │   └── TooComplex     its JSON is nested too deeply, or has too many values
    ├── UpstreamError      the upstream failed or is unreadable: 502 unless its kind says otherwise;
    │   │                  `fault` is the reason, unless the upstream reported the error itself
    │   └── LimitExceeded  the answer exceeds a limit: 502, naming the limit
    └── EventOrderError    a defect of this library: 500

Each has a `status` and a `kind`; dialects render the bodies. `formats.pipeline` is the only place
that turns one into a MessageFailed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    """Kinds of failures as clients see them; STATUS has the HTTP status of each."""

    INVALID_REQUEST = "invalid_request_error"
    AUTHENTICATION = "authentication_error"
    PERMISSION = "permission_error"
    NOT_FOUND = "not_found_error"
    TOO_LARGE = "request_too_large"
    RATE_LIMIT = "rate_limit_error"
    INTERNAL = "internal_error"
    UPSTREAM = "api_error"
    TRANSFORMATION = "format_transformation_error"
    TIMEOUT = "timeout_error"
    OVERLOADED = "overloaded_error"


class AnswerFault(StrEnum):
    """Reasons why an answer is unreadable or incomplete, if the upstream reported no error.

    docs/errors.md explains what to do about each.
    """

    ANSWER_TOO_LARGE = "upstream_answer_too_large"
    BAD_CHUNK = "upstream_bad_chunk"
    BAD_UTF8 = "upstream_bad_utf8"
    BUFFER_LIMIT = "buffer_limit"
    EVENT_TOO_LARGE = "upstream_event_too_large"
    LINE_TOO_LONG = "upstream_line_too_long"
    TRUNCATED = "upstream_truncated"


STATUS: dict[FailureKind, int] = {
    FailureKind.INVALID_REQUEST: 400,
    FailureKind.AUTHENTICATION: 401,
    FailureKind.PERMISSION: 403,
    FailureKind.NOT_FOUND: 404,
    FailureKind.TOO_LARGE: 413,
    FailureKind.RATE_LIMIT: 429,
    FailureKind.INTERNAL: 500,
    FailureKind.UPSTREAM: 502,
    FailureKind.TRANSFORMATION: 502,
    FailureKind.TIMEOUT: 504,
    FailureKind.OVERLOADED: 529,
}


TEMPORARY = frozenset({FailureKind.UPSTREAM, FailureKind.TIMEOUT, FailureKind.OVERLOADED})
"""Kinds after which a retry makes sense, unless the error says otherwise."""


def message_with_id(message: str, request_id: str | None) -> str:
    """Return the message with the id by which the gateway's operator finds the request."""
    return message if request_id is None else f"{message} (request {request_id})"


_KIND_OF_STATUS: dict[int, FailureKind] = {
    400: FailureKind.INVALID_REQUEST,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    413: FailureKind.TOO_LARGE,
    422: FailureKind.INVALID_REQUEST,
    429: FailureKind.RATE_LIMIT,
    503: FailureKind.OVERLOADED,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}


KIND_OF_NAME: dict[str, FailureKind] = {
    kind.value: kind for kind in FailureKind if kind is not FailureKind.INTERNAL
}
"""Kinds that an upstream may name in its own errors."""


def kind_of_status(status: int) -> FailureKind:
    """Map an upstream's status to a kind; 401 and 403 concern the gateway, not the client."""
    return _KIND_OF_STATUS.get(status, FailureKind.UPSTREAM)


class FormatsError(Exception):
    kind: FailureKind

    @property
    def status(self) -> int:
        return STATUS[self.kind]


class ClientError(FormatsError):
    """The request is invalid; `path` is the place in its JSON."""

    kind = FailureKind.INVALID_REQUEST

    def __init__(
        self, message: str, *, path: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.details = details
        """Anthropic's `error.details`, which SDKs act on."""


class TooComplex(ClientError):
    def __init__(self, what: str) -> None:
        super().__init__(f"the request's JSON {what}")


class UpstreamError(FormatsError):
    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = FailureKind.UPSTREAM,
        status: int | None = None,
        fault: AnswerFault | None = None,
    ) -> None:
        """`status` overrides the kind's status with the upstream's own."""
        super().__init__(message)
        self.kind = kind
        self.fault = fault
        self._status = status

    @property
    def status(self) -> int:
        return self._status or STATUS[self.kind]


_FAULTS = {
    "answer_bytes": AnswerFault.ANSWER_TOO_LARGE,
    "event_bytes": AnswerFault.EVENT_TOO_LARGE,
    "held_chars": AnswerFault.BUFFER_LIMIT,
    "line_bytes": AnswerFault.LINE_TOO_LONG,
}


class LimitExceeded(UpstreamError):
    """The answer exceeds a limit; `limit` is the name of a field of `Limits`."""

    def __init__(self, limit: str, allowed: int) -> None:
        super().__init__(
            f"The upstream's answer exceeded the limit {limit} of {allowed}",
            kind=FailureKind.TRANSFORMATION,
            fault=_FAULTS[limit],
        )
        self.limit = limit
        self.allowed = allowed


class EventOrderError(FormatsError):
    kind = FailureKind.INTERNAL


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one stream; a route sets them from the database."""

    #: One line of a server-sent event, including the field name. Ollama and others send a whole
    #: call in one line, and arguments of 100 KB have been seen.
    line_bytes: int = 1024 * 1024
    #: One server-sent event, all lines together.
    event_bytes: int = 4 * 1024 * 1024
    #: An answer that is buffered whole: a JSON document, or one for a client without streaming.
    answer_bytes: int = 64 * 1024 * 1024
    #: Undecided characters. Arguments stream, so only garbage, drafts and interleaved calls come
    #: near this limit; vLLM's limit of 8 KB lost real calls.
    held_chars: int = 1024 * 1024
    #: Text between the markers of a native format: a call's header, or noise in a section.
    header_chars: int = 256
    #: Nesting of a call's arguments: deeper than any schema in use, and below the recursion limit
    #: of clients' JSON parsers.
    json_depth: int = 128


DEFAULT_LIMITS = Limits()
