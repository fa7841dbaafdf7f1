"""Events of one response: the vocabulary shared by all dialects and native formats.

Events carry no indices, and text has no start or end: each encoder adds the framing it needs. A
delta has no identity, so splitting one changes nothing; `merge_deltas` makes the normal form in
which streams are compared.

The table ORDER defines the legal order. A call ends with ToolCallEnd, and then its arguments are
one complete JSON object, or with ToolCallFailed, and then it must not be run.
"""

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import TypeAlias

from msgspec import Struct

from formats.errors import AnswerFault, EventOrderError, FailureKind


class StopReason(StrEnum):
    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_USE = "tool_use"
    REFUSAL = "refusal"
    PAUSE_TURN = "pause_turn"
    CONTEXT_EXCEEDED = "model_context_window_exceeded"


class CallFault(StrEnum):
    """Reasons why a call cannot be delivered."""

    TRUNCATED = "truncated"
    INVALID_JSON = "invalid_json"
    BAD_HEADER = "bad_header"
    MISSING_NAME = "missing_name"
    NON_OBJECT_ARGS = "non_object_args"
    MALFORMED = "malformed"
    SUPERSEDED = "superseded"
    """A structured call replaces it; the only fault that does not fail the message."""


class Usage(Struct, frozen=True):
    """Token counts as reported by the upstream; None means unknown, never zero."""

    input: int | None = None
    """Input tokens that did not come from a cache."""
    output: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None

    def updated(self, newer: "Usage") -> "Usage":
        """Return these counts, overridden by all known counts of `newer`."""
        return Usage(
            input=self.input if newer.input is None else newer.input,
            output=self.output if newer.output is None else newer.output,
            cache_read=self.cache_read if newer.cache_read is None else newer.cache_read,
            cache_creation=(
                self.cache_creation if newer.cache_creation is None else newer.cache_creation
            ),
        )


UNKNOWN_USAGE = Usage()


class MessageStart(Struct, frozen=True, gc=False):
    id: str
    model: str
    usage: Usage = UNKNOWN_USAGE
    created: int | None = None
    """Creation time in seconds since the epoch, if the upstream sent it."""


class TextDelta(Struct, frozen=True, gc=False):
    text: str


class ReasoningDelta(Struct, frozen=True, gc=False):
    text: str


class ReasoningSignature(Struct, frozen=True, gc=False):
    """Opaque signature of the reasoning before it, or of reasoning whose text is withheld."""

    signature: str


class ReasoningRedacted(Struct, frozen=True, gc=False):
    """A complete, opaque block of reasoning."""

    data: str


class ToolCallStart(Struct, frozen=True, gc=False):
    id: str
    name: str
    is_custom: bool = False
    """True if the client's tool takes plain text: the argument `input`."""


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A fragment of the arguments' JSON text."""

    json: str


class ToolCallEnd(Struct, frozen=True, gc=False):
    """The call is complete; without a delta its arguments are `{}`."""


class ToolCallFailed(Struct, frozen=True, gc=False):
    """The open call has failed, or a call failed before its name was known."""

    fault: CallFault
    detail: str = ""


class MessageEnd(Struct, frozen=True, gc=False):
    stop_reason: StopReason
    stop_sequence: str | None = None
    usage: Usage = UNKNOWN_USAGE


class MessageFailed(Struct, frozen=True, gc=False):
    kind: FailureKind
    message: str
    fault: AnswerFault | None = None
    is_final: bool = False
    """True if the same request would fail again, whatever the kind says."""


class NoticeCode(StrEnum):
    """Codes of everything that may be repaired, dropped or released; audit filters use them.

    docs/notices.md explains what happened and what to do about each.
    """

    ARGUMENTS_DECODED_TWICE = "arguments_decoded_twice"
    ARGUMENTS_REPEATED = "arguments_repeated"
    ARGUMENTS_UNWRAPPED = "arguments_unwrapped"
    BLANK_TEXT_DROPPED = "blank_text_dropped"
    CALL_RESULT_SYNTHESIZED = "call_result_synthesized"
    CANDIDATE_RELEASED = "candidate_released"
    CHOICE_IGNORED = "choice_ignored"
    CONTENT_LARGE = "content_large"
    CONTENT_UNSUPPORTED = "content_unsupported"
    EMPTY_ANSWER = "empty_answer"
    EMPTY_CALL_DROPPED = "empty_call_dropped"
    FAMILY_READ = "family_read"
    FIELD_DROPPED = "field_dropped"
    FINISH_REASON_MISSING = "finish_reason_missing"
    HISTORY_SANITISED = "history_sanitised"
    ID_REPLACED = "id_replaced"
    LIMIT_CLAMPED = "limit_clamped"
    MARKUP_REMOVED = "markup_removed"
    MESSAGE_MOVED = "message_moved"
    NAME_RESOLVED = "name_resolved"
    NAME_SHORTENED = "name_shortened"
    NATIVE_MARKUP_SEEN = "native_markup_seen"
    NULL_DROPPED = "null_dropped"
    REASONING_DROPPED = "reasoning_dropped"
    REASONING_PLACEHOLDER = "reasoning_placeholder"
    REASONING_SPLIT = "reasoning_split"
    RESCUED = "rescued"
    SCHEMA_REPAIRED = "schema_repaired"
    SERVER_TOOL_DROPPED = "server_tool_dropped"
    SHADOW_CALL_REMOVED = "shadow_call_removed"
    SHAPE_TRANSLATED = "shape_translated"
    SURPLUS_CALL_DROPPED = "surplus_call_dropped"
    THINKING_HIDDEN = "thinking_hidden"
    TOOL_OUTPUT_DROPPED = "tool_output_dropped"
    UNKNOWN_EVENT = "unknown_event"


class Notice(Struct, frozen=True, gc=False):
    """Something was repaired, dropped or released. Encoders skip it; the audit stores it."""

    code: NoticeCode
    detail: str = ""


Event: TypeAlias = (
    MessageStart
    | TextDelta
    | ReasoningDelta
    | ReasoningSignature
    | ReasoningRedacted
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | ToolCallFailed
    | MessageEnd
    | MessageFailed
    | Notice
)


class State(Enum):
    START = "start"
    OPEN = "open"
    CALL = "call"
    DONE = "done"


_OPEN: dict[type, State] = {
    TextDelta: State.OPEN,
    ReasoningDelta: State.OPEN,
    ReasoningSignature: State.OPEN,
    ReasoningRedacted: State.OPEN,
    ToolCallStart: State.CALL,
    ToolCallFailed: State.OPEN,
    MessageEnd: State.DONE,
    MessageFailed: State.DONE,
    Notice: State.OPEN,
}

ORDER: dict[State, dict[type, State]] = {
    State.START: {
        MessageStart: State.OPEN,
        MessageFailed: State.DONE,
        Notice: State.START,
    },
    State.OPEN: _OPEN,
    State.CALL: {
        ToolCallDelta: State.CALL,
        ToolCallEnd: State.OPEN,
        ToolCallFailed: State.OPEN,
        MessageFailed: State.DONE,
        Notice: State.CALL,
    },
    State.DONE: {},
}


def next_state(state: State, event: Event) -> State:
    """Return the state after `event`; raises EventOrderError if the event is not allowed."""
    try:
        return ORDER[state][type(event)]
    except KeyError:
        raise EventOrderError(
            f"{type(event).__name__} is not allowed in state {state.name}"
        ) from None


def merge_deltas(events: Iterable[Event]) -> list[Event]:
    """Return the normal form of a stream: adjacent deltas of one kind are joined."""
    merged: list[Event] = []
    run: list[str] = []  # the texts of the deltas that the last event replaces
    kind: type | None = None
    for event in events:
        if type(event) is not kind:
            _close(merged, run)
            kind = type(event)
            merged.append(event)
        if isinstance(event, ToolCallDelta):
            run.append(event.json)
        elif isinstance(event, TextDelta | ReasoningDelta):
            run.append(event.text)
        elif merged[-1] is not event:
            merged.append(event)
    _close(merged, run)
    return merged


def _close(merged: list[Event], run: list[str]) -> None:
    if len(run) > 1:
        text = "".join(run)
        match merged[-1]:
            case TextDelta():
                merged[-1] = TextDelta(text)
            case ReasoningDelta():
                merged[-1] = ReasoningDelta(text)
            case _:
                merged[-1] = ToolCallDelta(text)
    run.clear()
