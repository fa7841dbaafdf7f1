"""A whole answer, collected from events for a client that did not ask for a stream."""

from collections.abc import Iterable

from msgspec import Struct

from formats.conversation import Part, Reasoning, RedactedReasoning, Text, ToolCall
from formats.events import (
    UNKNOWN_USAGE,
    CallFault,
    Event,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    Usage,
)
from formats.json_codec import to_bytes


class Reply(Struct):
    id: str = ""
    model: str = ""
    parts: list[Part] = []
    """Has complete calls only; failed ones are left out."""
    stop_reason: StopReason = StopReason.END_TURN
    stop_sequence: str | None = None
    usage: Usage = UNKNOWN_USAGE
    created: int | None = None
    """Creation time in seconds since the epoch, if the upstream sent it."""
    failure: MessageFailed | None = None
    """Set if the message failed: the client must get an error instead."""
    faults: list[CallFault] = []
    notices: list[Notice] = []


class ReplyOptions(Struct, frozen=True):
    """Data for the client's answer that does not come from the upstream."""

    created: int = 0
    """Creation time for OpenAI's chunks, in seconds since the epoch, if the upstream sends none."""
    include_usage: bool = True
    """True if an OpenAI client asked for the usage chunk."""
    request_id: str | None = None
    """Named in errors, because clients show only their message."""
    input_estimate: int = 1
    """Input tokens for `message_start`, before the upstream has counted them: Claude Code takes a
    zero for an empty context, and never compacts it."""


def collect(events: Iterable[Event]) -> Reply:
    """Collect a stream of events into a whole answer."""
    collector = Collector()
    collector.feed(events)
    return collector.reply


class Collector:
    """Builds a reply from events as they arrive."""

    def __init__(self) -> None:
        self.reply = Reply()
        self.size = 0
        """Number of characters of text, reasoning and arguments."""
        self._run: type[Text] | type[Reasoning] = Text
        self._text: list[str] = []  # of the current run of text or reasoning
        self._call: ToolCallStart | None = None
        self._json: list[str] = []

    def feed(self, events: Iterable[Event]) -> None:
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        reply = self.reply
        match event:
            case TextDelta(text=text):
                self._extend(Text, text)
                return
            case ReasoningDelta(text=text):
                self._extend(Reasoning, text)
                return
            case ToolCallDelta(json=json):
                self._json.append(json)
                self.size += len(json)
                return
            case Notice():
                reply.notices.append(event)
                return
            case ReasoningSignature(signature=signature):
                text = "".join(self._text) if self._run is Reasoning else ""
                if self._run is Reasoning:
                    self._text = []
                self._close_run()
                reply.parts.append(Reasoning(text, signature))
                return
        self._close_run()
        match event:
            case MessageStart():
                reply.id, reply.model, reply.usage = event.id, event.model, event.usage
                reply.created = event.created
            case ReasoningRedacted(data=data):
                reply.parts.append(RedactedReasoning(data))
            case ToolCallStart():
                self._call, self._json = event, []
            case ToolCallEnd() if self._call:
                call, arguments = self._call, to_bytes("".join(self._json) or "{}")
                reply.parts.append(ToolCall(call.id, call.name, arguments, call.is_custom))
                self._call = None
            case ToolCallFailed(fault=fault):
                reply.faults.append(fault)
                self._call = None
            case MessageEnd():
                reply.stop_reason = event.stop_reason
                reply.stop_sequence = event.stop_sequence
                reply.usage = reply.usage.updated(event.usage)
            case MessageFailed():
                reply.failure = event

    def _extend(self, run: type[Text] | type[Reasoning], text: str) -> None:
        if run is not self._run:
            self._close_run()
            self._run = run
        self._text.append(text)
        self.size += len(text)

    def _close_run(self) -> None:
        if self._text:
            self.reply.parts.append(self._run("".join(self._text)))
            self._text = []
