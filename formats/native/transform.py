"""Events → events: calls that a model wrote into its text become calls.

Structured calls of the same response win. A region in the text beside them is a copy, and is
removed; a structured call that repeats one already rescued is dropped.
"""

from collections.abc import Callable, Iterable
from zlib import crc32

from formats.errors import DEFAULT_LIMITS, LimitExceeded, Limits
from formats.events import (
    CallFault,
    Event,
    MessageEnd,
    MessageFailed,
    Notice,
    NoticeCode,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
)
from formats.native.format import NativeFormat
from formats.native.machine import Channel, Machine
from formats.native.output import Output
from formats.native.region import Context
from formats.toolbox import Toolbox


class NativeTransform:
    def __init__(
        self,
        native: NativeFormat,
        toolbox: Toolbox,
        limits: Limits = DEFAULT_LIMITS,
        *,
        strict: bool = False,
    ) -> None:
        self._toolbox = toolbox
        self._limits = limits
        self._machine = Machine(native, Context(toolbox, limits, Output(), strict))
        self._rescued = _Fingerprints()
        self._structured: list[Event] | None = None  # a call that may repeat a rescued one
        self._structured_chars = 0
        self._has_answer = False

    def feed(self, events: Iterable[Event]) -> list[Event]:
        machine = self._machine
        for event in events:
            if type(event) is TextDelta:
                self._has_answer = self._has_answer or not event.text.isspace()
                if machine.accepts(event.text, Channel.CONTENT):
                    machine.out.append(event)
                else:
                    self._read(event.text, Channel.CONTENT)
            elif type(event) is ReasoningDelta:
                if machine.accepts(event.text, Channel.REASONING):
                    machine.out.append(event)
                else:
                    self._read(event.text, Channel.REASONING)
            else:
                self._other(event)
        out = machine.out[:]
        machine.out.clear()
        return out

    def _read(self, text: str, channel: Channel) -> None:
        start = len(self._machine.out)
        self._machine.feed(text, channel)
        self._rescued.note(self._machine.out[start:])

    def _close(self) -> None:
        start = len(self._machine.out)
        self._machine.close()
        self._rescued.note(self._machine.out[start:])

    def _other(self, event: Event) -> None:
        out = self._machine.out
        match event:
            case ToolCallStart():
                self._machine.suppressed = True
                start = len(out)
                self._close()
                out[start:] = [
                    ToolCallFailed(CallFault.SUPERSEDED) if isinstance(e, ToolCallFailed) else e
                    for e in out[start:]
                ]
                if self._rescued.complete:
                    self._structured = []
                    self._structured_chars = 0
                self._pass(event)
            case ToolCallDelta() | ToolCallEnd() | ToolCallFailed():
                self._pass(event)
            case ReasoningSignature() | ReasoningRedacted():
                self._close()
                out.append(event)
            case MessageEnd():
                self._close()
                self._promote()
                out.append(event)
            case MessageFailed():
                self._machine.abandon()
                out.append(event)
            case _:
                out.append(event)

    def _pass(self, event: Event) -> None:
        """A part of a structured call: held while it may prove to repeat a rescued one."""
        if self._structured is None:
            self._machine.out.append(event)
            return
        self._structured.append(event)
        if isinstance(event, ToolCallEnd | ToolCallFailed):
            held, self._structured = self._structured, None
            repeated = _Fingerprints()
            repeated.note(held, resolve=self._toolbox.resolve)
            if repeated.complete <= self._rescued.complete and repeated.complete:
                held = [Notice(NoticeCode.SHADOW_CALL_REMOVED, "repeats a rescued call")]
            self._machine.out.extend(held)
        elif isinstance(event, ToolCallDelta):
            self._structured_chars += len(event.json)
            if self._structured_chars > self._limits.held_chars:
                raise LimitExceeded("held_chars", self._limits.held_chars)

    def _promote(self) -> None:
        """Deliver the calls that were found in the reasoning, unless they were copies or drafts."""
        deferred = self._machine.deferred
        if self._machine.suppressed and deferred:
            self._machine.out.append(Notice(NoticeCode.SHADOW_CALL_REMOVED, "in the reasoning"))
        elif self._has_answer:
            # A broken draft does not spoil the answer that follows it.
            self._machine.out.extend(_complete(deferred))
        else:
            self._machine.out.extend(deferred)


def _complete(events: Iterable[Event]) -> list[Event]:
    """The events of the calls that were completed, and a notice for each that was not."""
    out: list[Event] = []
    call: list[Event] = []
    for event in events:
        call.append(event)
        if isinstance(event, ToolCallFailed):
            call = [Notice(NoticeCode.MARKUP_REMOVED, "a broken call in the reasoning")]
        if isinstance(event, ToolCallFailed | ToolCallEnd):
            out += call
            call = []
    return out + call


class _Fingerprints:
    """What tells two calls to be the same: the tool, and the arguments but for white space."""

    def __init__(self) -> None:
        self.complete: set[tuple[str, int]] = set()
        self._name = ""
        self._sum = 0

    def note(self, events: Iterable[Event], resolve: Callable[[str], str] = str) -> None:
        for event in events:
            match event:
                case ToolCallStart(name=name):
                    self._name, self._sum = resolve(name), 0
                case ToolCallDelta(json=json):
                    self._sum = crc32("".join(json.split()).encode(errors="replace"), self._sum)
                case ToolCallEnd():
                    self.complete.add((self._name, self._sum))
