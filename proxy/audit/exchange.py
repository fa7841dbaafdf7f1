"""One request and its answer, as the gateway remembers it: who, what, how, and how it ended."""

import logging
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
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

# Of the columns of a row, those that its line in the log has, too, if they say something; the
# request's id is in every line.
_LOGGED_OF_STRANGERS = (
    "status",
    "outcome",
    "duration_ms",
    "error_code",
    "error_source",
)
_LOGGED = (
    *_LOGGED_OF_STRANGERS,
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
_NOTHING = (None, "")

_DELTAS = frozenset({ReasoningDelta, TextDelta, ToolCallDelta})


@dataclass(frozen=True, slots=True)
class Reading:
    """How an answer is read, besides what the route says: enough to read it again."""

    is_whole: bool
    tools: tuple[Tool, ...]
    max_calls: int | None
    taken_ids: frozenset[str]
    aliases: dict[str, str]


class Exchange:
    # Without them there are too many attributes for a shared table of names: each is read slower.
    __slots__ = (
        "_bytes_used",
        "_is_rescuing",
        "attempts",
        "begun_after",
        "bytes_in",
        "bytes_out",
        "bytes_upstream",
        "calls",
        "capture",
        "created_at",
        "dialect",
        "error",
        "fault",
        "first_byte",
        "has_begun",
        "has_client",
        "headers",
        "input_estimate",
        "is_streaming",
        "key",
        "leaked_format",
        "model",
        "notices",
        "own_time",
        "reading",
        "redactor",
        "request_id",
        "rescued",
        "route",
        "served_by",
        "snapshot",
        "started",
        "stop_reason",
        "token",
        "usage",
    )

    def __init__(self, dialect: str) -> None:
        self.token = secrets.token_hex(12)
        self.request_id = f"req_{self.token}"
        self.dialect = dialect
        self.created_at = clock.now()
        self.started = perf_counter()
        self.snapshot: Snapshot | None = None
        """Set when the request is accepted: only then is anything remembered."""
        self.key: Key | None = None
        self.headers: dict[str, str] = {}
        self.redactor = Redactor()
        """Knows the secrets of the client and of every upstream that was asked."""
        self.model = ""
        self.is_streaming = False
        self.input_estimate: int | None = None
        self.route: Route | None = None
        self.reading: Reading | None = None
        self.served_by: str | None = None
        self.attempts: list[tuple[Route, GatewayError]] = []
        """Those that failed."""
        self.notices: Counter[Notice] = Counter()
        self.calls = self.rescued = 0
        """Those that were delivered; of them, those that were found in the text."""
        self._is_rescuing = False
        self.leaked_format = ""
        """The first whose markup was seen in text that was delivered."""
        self.stop_reason: StopReason | None = None
        self.usage = Usage()
        self.has_client = True
        self.has_begun = False
        self.fault: CallFault | None = None
        self.error: GatewayError | None = None
        self.capture: Capture | None = None
        self.first_byte: float | None = None
        """Seconds from the start to the first byte for the client."""
        self.begun_after: float | None = None
        """Seconds from asking the upstream that answered to the first content of its answer."""
        self.own_time = 0.0
        """Seconds that were the gateway's own, not spent in waiting."""
        self.bytes_in = self.bytes_upstream = self.bytes_out = 0
        self._bytes_used = 0

    @property
    def message_id(self) -> str:
        return f"{'msg_' if self.dialect == 'anthropic' else 'chatcmpl-'}{self.token}"

    def begin_attempt(self, route: Route) -> None:
        """Nothing of an earlier attempt was delivered: what it said is no part of the answer."""
        self.route, self.has_begun, self.begun_after = route, False, None
        self.redactor.add_secrets(route.upstream.secrets())
        self._bytes_used = self.bytes_upstream
        self.error = self.fault = self.reading = self.served_by = self.stop_reason = None
        self.notices.clear()
        self.leaked_format = ""
        self.calls, self.rescued, self._is_rescuing = 0, 0, False
        self.usage = Usage()
        if self.capture is not None:
            self.capture.discard_answer()

    def received(self, data: bytes) -> None:
        """Bytes came from the upstream."""
        self.bytes_upstream += len(data)
        if self.capture is not None:
            self.capture.add_raw(data)

    def sent(self, data: bytes) -> None:
        """Bytes go to the client."""
        if self.first_byte is None:
            self.first_byte = perf_counter() - self.started
        self.bytes_out += len(data)
        if self.capture is not None:
            self.capture.sent.add(data)

    def observe(self, events: list[Event] | tuple[Notice, ...]) -> None:
        """Take note of what is being delivered."""
        for event in events:
            kind = type(event)
            if kind in _DELTAS:
                continue
            if kind is ToolCallEnd:
                self.calls += 1
                self.rescued += self._is_rescuing
                self._is_rescuing = False
            elif isinstance(event, Notice):
                self.notices[event] = self.notices.get(event, 0) + 1
                if event.code is NoticeCode.RESCUED:
                    self._is_rescuing = True
                elif event.code is NoticeCode.NATIVE_MARKUP_SEEN:
                    self.leaked_format = self.leaked_format or event.detail
            elif isinstance(event, MessageStart):
                self.usage = self.usage.updated(event.usage)
            elif isinstance(event, ToolCallFailed):
                self._is_rescuing = False
                if event.fault is not CallFault.SUPERSEDED:
                    self.fault = self.fault or event.fault
            elif isinstance(event, MessageFailed):
                self.error = self.error or self.failed(event)
            elif isinstance(event, MessageEnd):
                self.stop_reason = event.stop_reason
                self.usage = self.usage.updated(event.usage)

    def understood(self, events: list[Event]) -> None:
        """The events of one read."""
        if events:
            self._bytes_used = self.bytes_upstream
        self.observe(events)
        if self.capture is not None:
            self.capture.add_events(events)

    def counted(self, usage: Usage) -> None:
        """What the upstream has counted so far, of an answer that may never end."""
        self.usage = self.usage.updated(usage)

    def failed(self, failure: MessageFailed) -> GatewayError:
        """An answer that said that all is well, and then failed."""
        if failure.kind is FailureKind.INTERNAL:  # a defect of the gateway's, not the upstream's
            return GatewayError(ErrorCode.INTERNAL_ERROR, failure.message)
        code = code_of(failure)
        if code is ErrorCode.TRANSFORMATION_FAILED and self.fault is not None:
            code = ErrorCode(f"call_{self.fault}")
        return UpstreamFailed.of_answer(failure, code)

    @property
    def held_bytes(self) -> int:
        """What came from the upstream since the last event that was made of it."""
        return self.bytes_upstream - self._bytes_used

    @property
    def outcome(self) -> Outcome:
        return outcome_of(self.error, self.phase) if self.has_client else Outcome.CLIENT_DISCONNECT

    @property
    def phase(self) -> Phase:
        """Where it failed, if it did."""
        if self.error is None or self.route is None:
            return Phase.REQUEST
        return phase_of(self.error, has_begun=self.has_begun)

    def log(self, row: Mapping[str, Any]) -> None:
        """Write the exchange's log line, from the columns of its row."""
        if not logger.isEnabledFor(logging.INFO):
            return
        names = _LOGGED if self.snapshot is not None else _LOGGED_OF_STRANGERS
        fields = {name: value for name in names if (value := row[name]) not in _NOTHING}
        if self.notices:
            fields["notices"] = sorted({notice.code for notice in self.notices})
        message = "answered"
        if self.error is not None:
            message = self.redactor.redact_column(_line(self.error), 300)
        logger.info("%s", message, extra={"fields": fields})


def _line(error: GatewayError) -> str:
    """Why it failed, with the cause that is the operator's alone: an address, an errno."""
    cause = error.__cause__
    return f"{error} ({cause})" if cause is not None and str(cause) else str(error)
