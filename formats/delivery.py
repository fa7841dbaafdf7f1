"""Final stage before the encoder: settles call ids, tool names, the number of calls and the end.

Arguments are forwarded unchanged, except for nulls that the tool's schema does not allow.

Ids must be unique in the client's whole session, so an upstream's id is kept only if it is valid
for the client and not in the history. The stop reason follows from what was delivered, never from
what the upstream claims: a complete call makes it `tool_use`; a broken call makes the message a
failure, unless the token limit truncated it.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from formats.errors import FailureKind
from formats.events import (
    CallFault,
    Event,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    NoticeCode,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    State,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    next_state,
)
from formats.foreign_body import one_line
from formats.null_arguments import NullFilter
from formats.toolbox import Toolbox

_USABLE_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_OPEN, _DONE = State.OPEN, State.DONE  # bound once: looking up a member costs as much as a call
_ENDS = frozenset({StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.CONTEXT_EXCEEDED})


@dataclass(frozen=True, slots=True)
class Identity:
    """Ids and names of one response. `token` must be unique per response; new call ids have it."""

    token: str
    #: None keeps the upstream's value.
    message_id: str | None = None
    model: str | None = None
    #: The call ids in the request's history.
    taken_ids: Collection[str] = frozenset()
    #: True if the upstream's values take precedence over these.
    prefers_upstream: bool = False

    def apply(self, start: MessageStart) -> MessageStart:
        """Return the start of the message with this identity's id and model."""
        if self.prefers_upstream:
            message_id, model = start.id or self.message_id, start.model or self.model
        else:
            message_id, model = self.message_id or start.id, self.model or start.model
        return replace(start, id=message_id or "", model=model or "")


_FAULT_TEXTS = {
    CallFault.TRUNCATED: "{call} ended before it was complete",
    CallFault.INVALID_JSON: "the arguments of {call} are not valid JSON",
    CallFault.BAD_HEADER: "the header of {call} cannot be read",
    CallFault.MISSING_NAME: "{call} has no name",
    CallFault.NON_OBJECT_ARGS: "the arguments of {call} are not a JSON object",
    CallFault.MALFORMED: "the markup of {call} cannot be read",
}


class Delivery:
    def __init__(
        self, identity: Identity, toolbox: Toolbox, *, max_calls: int | None = None
    ) -> None:
        self.state = State.START
        self._identity = identity
        self._toolbox = toolbox
        self._max_calls = max_calls
        self._ids: set[str] = set(identity.taken_ids)
        self._minted = 0
        self._calls = 0
        self._drops_call = False  # inside a call that is not delivered
        self._is_nameless = False  # inside a call without a name
        self._empty_calls = 0  # calls without name and arguments
        self._nulls: NullFilter | None = None  # set if the call may contain nulls to drop
        self.fault: CallFault | None = None
        """The fault of the first call that failed."""
        self._name = ""  # of the open call
        self._failed_name = ""  # of the first call that failed
        self._ends_in_cut_call = False  # nothing but a notice has followed it
        self._has_content = False

    @property
    def is_inside_content(self) -> bool:
        """True if text or reasoning can be delivered without changing any state."""
        return self.state is _OPEN and self._has_content

    @property
    def failure_of_call(self) -> MessageFailed:
        """The failure of the message because of the first call that failed."""
        assert self.fault is not None  # noqa: S101
        call = f"the call {one_line(self._failed_name)}" if self._failed_name else "a call"
        reason = _FAULT_TEXTS[self.fault].format(call=call)
        return MessageFailed(
            FailureKind.TRANSFORMATION, f"The model's tool call could not be translated: {reason}"
        )

    def feed(self, events: Iterable[Event], out: list[Event]) -> None:
        """Append the events for the client to `out`; raises EventOrderError for an illegal one."""
        for event in events:
            kind = type(event)
            if self.state is _OPEN and (kind is TextDelta or kind is ReasoningDelta):
                self._has_content = True
                out.append(event)  # the state does not change
            elif self.state is _DONE:
                break
            elif type(event) is not ToolCallDelta:
                self._deliver(out, event)
            elif self._drops_call:
                if self._is_nameless and event.json.strip(" \t\r\n{}"):
                    self._fail_nameless(out)
            else:
                self.state = next_state(self.state, event)
                if self._nulls is None:
                    out.append(event)
                elif json := self._nulls.feed(event.json):
                    out.append(ToolCallDelta(json))

    def _append(self, out: list[Event], event: Event) -> None:
        self.state = next_state(self.state, event)
        out.append(event)

    def _deliver(self, out: list[Event], event: Event) -> None:
        match event:
            case ToolCallStart():
                self._start_call(out, event)
                return
            case ToolCallEnd() if self._is_nameless:
                self._is_nameless = self._drops_call = False
                self._empty_calls += 1
                return
            case ToolCallFailed() if self._is_nameless:
                self._fail_nameless(out)
                self._drops_call = False
                return
            case ToolCallEnd() | ToolCallFailed() if self._drops_call:
                self._drops_call = False
                return
            case ToolCallEnd():
                self._calls += 1
                self._name = ""
                for key in self._nulls.dropped if self._nulls else ():
                    self._append(out, Notice(NoticeCode.NULL_DROPPED, key))
            case ToolCallFailed(fault=fault):
                if fault is not CallFault.SUPERSEDED:
                    # As after a cut call, nothing may follow: not even a second cut call.
                    self._ends_in_cut_call = fault is CallFault.TRUNCATED and not self.fault
                    if self.fault is None:
                        self.fault, self._failed_name = fault, self._name
                    self._has_content = False
                self._name = ""
            case ReasoningSignature() | ReasoningRedacted():
                self._has_content = True
            case MessageStart():
                event = self._identity.apply(event)
            case MessageEnd():
                event = self._finish(out, event)
        self._append(out, event)

    def _start_call(self, out: list[Event], call: ToolCallStart) -> None:
        self._ends_in_cut_call = False
        if self._max_calls is not None and self._calls >= self._max_calls:
            self._drops_call = self._has_content = True
            self._append(out, Notice(NoticeCode.SURPLUS_CALL_DROPPED, call.name))
            return
        name = self._toolbox.resolve(call.name)
        if not name.strip():
            self._drops_call = self._is_nameless = True
            return
        if name != call.name:
            self._append(out, Notice(NoticeCode.NAME_RESOLVED, f"{call.name} → {name}"))
        call_id = call.id
        if not _USABLE_ID.fullmatch(call_id) or call_id in self._ids:
            call_id = self._mint()
            if call.id:
                self._append(out, Notice(NoticeCode.ID_REPLACED, f"{call.id} → {call_id}"))
        self._ids.add(call_id)
        optional = self._toolbox.non_null_optionals(name)
        self._nulls = NullFilter(optional) if optional else None
        self._name = name
        self._append(out, ToolCallStart(call_id, name, self._toolbox.is_custom(name)))

    def _fail_nameless(self, out: list[Event]) -> None:
        self._is_nameless = False
        self.fault = self.fault or CallFault.MISSING_NAME
        self._append(out, ToolCallFailed(CallFault.MISSING_NAME))

    def _mint(self) -> str:
        self._minted += 1
        return f"call_{self._identity.token}_{self._minted}"

    def _finish(self, out: list[Event], end: MessageEnd) -> Event:
        reason = end.stop_reason
        if self._empty_calls and not self._calls:
            self._fail_nameless(out)
        elif self._empty_calls:
            self._append(out, Notice(NoticeCode.EMPTY_CALL_DROPPED, f"{self._empty_calls}"))
        if self.fault and not (
            self._ends_in_cut_call and not self._has_content and reason is StopReason.MAX_TOKENS
        ):
            return self.failure_of_call
        if not (self._has_content or self._calls or self.fault) and reason not in _ENDS:
            if reason is StopReason.TOOL_USE or (end.usage.output or 0) > 1:
                return MessageFailed(
                    FailureKind.UPSTREAM, "The upstream finished without any answer"
                )
            self._append(out, Notice(NoticeCode.EMPTY_ANSWER))
        if reason in _ENDS:
            return end
        if self._calls:
            reason = StopReason.TOOL_USE
        elif reason is StopReason.TOOL_USE:
            reason = StopReason.END_TURN
        return MessageEnd(reason, end.stop_sequence, end.usage)
