"""Record of one request and its answer while it is served.

`request` describes the client's request, `answer` the latest attempt's answer, and `transfer` the
times and byte counts. `exchange_row` and `transcripts` build the stored forms.
"""

import logging
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from time import perf_counter
from typing import Any

from formats import (
    CallFault,
    Event,
    FailureKind,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    NoticeCode,
    ReasoningDelta,
    StopReason,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    Usage,
)
from proxy.audit.capture import Capture
from proxy.audit.outcome import outcome_of, phase_of
from proxy.configuration.routing import Route
from proxy.configuration.snapshot import Key, Snapshot
from proxy.database.clock import clock
from proxy.errors import ErrorCode, GatewayError, UpstreamFailed, code_of
from proxy.models import Outcome, Phase
from proxy.security.redaction import Redactor

logger = logging.getLogger("athena.exchange")

# Columns of the row that the log line has as well, unless empty.
_LOGGED_IF_REJECTED = (
    "status",
    "outcome",
    "duration_ms",
    "error_code",
    "error_source",
)
_LOGGED = (
    *_LOGGED_IF_REJECTED,
    "key_id",
    "model",
    "upstream",
    "upstream_model",
    "format",
    "tool_calls",
    "stop_reason",
    "input_tokens",
    "output_tokens",
)
_EMPTY = (None, "")

_DELTAS = frozenset({ReasoningDelta, TextDelta, ToolCallDelta})


@dataclass(frozen=True, slots=True)
class DecodingSettings:
    """Settings for decoding an answer, besides those of the route. Enough to decode it again."""

    is_whole: bool
    tools: tuple[Tool, ...]
    max_calls: int | None
    taken_ids: frozenset[str]
    aliases: dict[str, str]


@dataclass(slots=True)
class RequestRecord:
    """The client's request."""

    created_at: datetime = field(default_factory=clock.now)
    snapshot: Snapshot | None = None
    """Set when the request is accepted. Only accepted requests are recorded."""
    key: Key | None = None
    headers: dict[str, str] = field(default_factory=dict)
    model: str = ""
    is_streaming: bool = False
    input_estimate: int | None = None
    size: int = 0
    """Bytes of the body."""


@dataclass(slots=True)
class AnswerRecord:
    """The answer of one attempt."""

    route: Route | None = None
    decoding: DecodingSettings | None = None
    served_by: str | None = None
    seconds_to_start: float | None = None
    """Time from the request to the upstream until the first content of its answer; None if none."""
    notices: Counter[Notice] = field(default_factory=Counter)
    tool_calls: int = 0
    rescued_calls: int = 0
    """Tool calls found in the text."""
    leaked_format: str = ""
    """The first format whose markup was seen in delivered text."""
    family_read: str = ""
    """The first family whose markup the format `auto` read."""
    stop_reason: StopReason | None = None
    usage: Usage = field(default_factory=Usage)
    call_fault: CallFault | None = None
    _is_rescuing: bool = False

    def add_events(self, events: Iterable[Event]) -> MessageFailed | None:
        """Count what was delivered; returns the failure with which it ended, if any."""
        failure = None
        for event in events:
            kind = type(event)
            if kind in _DELTAS:
                continue
            if kind is ToolCallEnd:
                self.tool_calls += 1
                self.rescued_calls += self._is_rescuing
                self._is_rescuing = False
            elif isinstance(event, Notice):
                self.notices[event] = self.notices.get(event, 0) + 1
                if event.code is NoticeCode.RESCUED:
                    self._is_rescuing = True
                elif event.code is NoticeCode.NATIVE_MARKUP_SEEN:
                    self.leaked_format = self.leaked_format or event.detail
                elif event.code is NoticeCode.FAMILY_READ:
                    self.family_read = self.family_read or event.detail
            elif isinstance(event, MessageStart):
                self.usage = self.usage.updated(event.usage)
            elif isinstance(event, ToolCallFailed):
                self._is_rescuing = False
                if event.fault is not CallFault.SUPERSEDED:
                    self.call_fault = self.call_fault or event.fault
            elif isinstance(event, MessageFailed):
                failure = failure or event
            elif isinstance(event, MessageEnd):
                self.stop_reason = event.stop_reason
                self.usage = self.usage.updated(event.usage)
        return failure


@dataclass(slots=True)
class Transfer:
    """Times and byte counts, over all attempts."""

    started: float = field(default_factory=perf_counter)
    first_byte: float | None = None
    """Seconds from the start to the first byte for the client."""
    own_time: float = 0.0
    """Seconds that the gateway itself worked, without waiting."""
    bytes_upstream: int = 0
    bytes_out: int = 0
    bytes_decoded: int = 0
    """Value of `bytes_upstream` at the latest event."""

    @property
    def held_bytes(self) -> int:
        """Bytes received from the upstream since the latest event."""
        return self.bytes_upstream - self.bytes_decoded


class Exchange:
    __slots__ = (
        "answer",
        "capture",
        "dialect",
        "error",
        "failed_attempts",
        "has_client",
        "is_answered",
        "redactor",
        "request",
        "token",
        "transfer",
    )

    def __init__(self, dialect: str) -> None:
        self.token = secrets.token_hex(12)
        self.dialect = dialect
        self.request = RequestRecord()
        self.answer = AnswerRecord()
        self.transfer = Transfer()
        self.failed_attempts: list[tuple[Route, GatewayError]] = []
        self.error: GatewayError | None = None
        self.has_client = True
        self.is_answered = False
        """True if the client has got an error, although the upstream's answer goes on."""
        self.capture: Capture | None = None
        self.redactor = Redactor()
        """Knows the secrets of the client and of every upstream that was asked."""

    @property
    def request_id(self) -> str:
        return f"req_{self.token}"

    @property
    def message_id(self) -> str:
        return f"{'msg_' if self.dialect == 'anthropic' else 'chatcmpl-'}{self.token}"

    def start_attempt(self, route: Route) -> None:
        """Discard the answer of the previous attempt: none of it was delivered."""
        self.answer = AnswerRecord(route)
        self.error = None
        self.redactor.add_secrets(route.upstream.secrets())
        self.transfer.bytes_decoded = self.transfer.bytes_upstream
        if self.capture is not None:
            self.capture.discard_answer()

    def add_read(self, data: bytes, events: list[Event], at: float) -> None:
        """Count one read from the upstream, received `at`, and the events that it completed.

        `data` is empty for events that come without a read, such as a timeout.
        """
        transfer = self.transfer
        transfer.bytes_upstream += len(data)
        if events:
            transfer.bytes_decoded = transfer.bytes_upstream
            if len(events) > 1 or type(events[0]) not in _DELTAS:  # most reads bring one delta
                failure = self.answer.add_events(events)
                if failure is not None and self.error is None:
                    self.error = self.error_of(failure)
        if self.capture is not None:
            self.capture.add_read(data, events, at)

    def add_sent(self, data: bytes) -> None:
        """Count bytes for the client."""
        transfer = self.transfer
        if transfer.first_byte is None:
            transfer.first_byte = perf_counter() - transfer.started
        transfer.bytes_out += len(data)
        if self.capture is not None:
            self.capture.sent.add(data)

    def update_usage(self, usage: Usage) -> None:
        """Record the token counts so far, of an answer that may never end."""
        self.answer.usage = self.answer.usage.updated(usage)

    def error_of(self, failure: MessageFailed) -> GatewayError:
        """The error of an answer that began with a success status, and then failed."""
        if failure.kind is FailureKind.INTERNAL:  # a defect of the gateway
            return GatewayError(ErrorCode.INTERNAL_ERROR, failure.message)
        code = code_of(failure)
        if code is ErrorCode.TRANSFORMATION_FAILED and self.answer.call_fault is not None:
            code = ErrorCode(f"call_{self.answer.call_fault}")
        return UpstreamFailed.of_answer(failure, code)

    @property
    def outcome(self) -> Outcome:
        return outcome_of(self.error, self.phase, has_client=self.has_client)

    @property
    def phase(self) -> Phase:
        """The step in which the exchange failed."""
        if self.error is None or self.answer.route is None:
            return Phase.REQUEST
        return phase_of(self.error, has_started=self.answer.seconds_to_start is not None)

    def log(self, row: Mapping[str, Any]) -> None:
        """Write the exchange's log line, from the columns of its row."""
        if not logger.isEnabledFor(logging.INFO):
            return
        names = _LOGGED if self.request.snapshot is not None else _LOGGED_IF_REJECTED
        fields = {name: value for name in names if (value := row[name]) not in _EMPTY}
        if self.answer.notices:
            fields["notices"] = sorted({notice.code for notice in self.answer.notices})
        message = "answered"
        if self.error is not None:
            message = self.redactor.redact_column(_with_cause(self.error), 300)
        logger.info("%s", message, extra={"fields": fields})


def _with_cause(error: GatewayError) -> str:
    """The error with its cause, which only operators see: an address, an errno."""
    cause = error.__cause__
    return f"{error} ({cause})" if cause is not None and str(cause) else str(error)
