"""Turns calls that a model wrote into its text into tool-call events.

Structured calls of the same response win: a call in the text beside them is a copy and is removed.
A structured call that repeats a rescued one is dropped, and so is a call in the answer that repeats
one in the reasoning. A deferred call in the reasoning is a draft if the answer makes a call.
"""

import re
from collections.abc import Iterable
from re import Match
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
from formats.native.declared_calls import DeclaredCalls
from formats.native.format import NativeFormat
from formats.native.grammar import CallOutput, Context
from formats.native.text_scanner import Channel, TextScanner
from formats.toolbox import Toolbox

# Bound once: looking up an Enum member costs as much as a call.
_CONTENT, _REASONING = Channel.CONTENT, Channel.REASONING
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(/)|.)", re.DOTALL)


class CallRescue:
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
        scanner = DeclaredCalls if native.families else TextScanner
        self._scanner = scanner(native, Context(toolbox, limits, CallOutput(), strict))
        self._rescued = _Fingerprints(toolbox)
        self._reasoned = _Fingerprints(toolbox)
        self._held: list[Event] | None = None  # events of a call that may repeat a rescued one
        self._held_chars = 0
        self._channel = Channel.CONTENT
        self._answer_calls = False
        self._has_answer = False

    def try_pass(self, event: Event) -> bool:
        """Record a delta and return True if it passes unchanged; else do nothing."""
        if type(event) is TextDelta:
            return self._has_answer and self._scanner.try_pass(event.text, _CONTENT)
        return type(event) is ReasoningDelta and self._scanner.try_pass(event.text, _REASONING)

    def feed(self, events: Iterable[Event]) -> list[Event]:
        scanner, out = self._scanner, self._scanner.out
        for event in events:
            if type(event) is TextDelta:
                if not self._has_answer:
                    self._has_answer = not event.text.isspace()
                if scanner.try_pass(event.text, _CONTENT):
                    out.append(event)
                else:
                    self._read(event.text, _CONTENT)
            elif type(event) is ReasoningDelta:
                if scanner.try_pass(event.text, _REASONING):
                    out.append(event)
                else:
                    self._read(event.text, _REASONING)
            elif type(event) is ToolCallDelta and self._held is None:
                out.append(event)
            else:
                self._other(event)
        return self.take()

    def take(self) -> list[Event]:
        """Return the events that were made before an error was raised."""
        out = self._scanner.out
        ready = out[:]
        out.clear()
        return ready

    def _read(self, text: str, channel: Channel) -> None:
        start = len(self._scanner.out)
        self._scanner.feed(text, channel)
        self._channel = channel
        self._record(start)

    def _close(self) -> None:
        start = len(self._scanner.out)
        self._scanner.close()
        self._record(start)

    def _record(self, start: int) -> None:
        """Record the calls from `start` on, and hold those that may repeat the reasoning."""
        out = self._scanner.out
        events = out[start:]
        if not events:
            return
        has_call = self._rescued.add(events)
        if self._channel is Channel.REASONING:
            self._reasoned.add(events)
            return
        self._answer_calls = self._answer_calls or has_call
        if self._reasoned.complete:
            del out[start:]
            for event in events:
                self._pass(event, may_repeat=self._reasoned)

    def _other(self, event: Event) -> None:
        out = self._scanner.out
        match event:
            case ToolCallStart():
                self._scanner.suppressed = True
                start = len(out)
                self._close()
                out[start:] = [
                    ToolCallFailed(CallFault.SUPERSEDED) if isinstance(e, ToolCallFailed) else e
                    for e in out[start:]
                ]
                self._pass(event, may_repeat=self._rescued)
            case ToolCallDelta() | ToolCallEnd() | ToolCallFailed():
                self._pass(event, may_repeat=self._rescued)
            case ReasoningSignature() | ReasoningRedacted():
                self._close()
                out.append(event)
            case MessageEnd():
                self._close()
                self._promote()
                out.append(event)
            case MessageFailed():
                self._scanner.abandon()
                out.append(event)
            case _:
                out.append(event)

    def _pass(self, event: Event, *, may_repeat: "_Fingerprints") -> None:
        """Send an event of a call; hold it while the call may repeat one in `may_repeat`."""
        if isinstance(event, ToolCallStart) and may_repeat.complete:
            self._held = []
            self._held_chars = 0
        if self._held is None:
            self._scanner.out.append(event)
            return
        self._held.append(event)
        if isinstance(event, ToolCallEnd | ToolCallFailed):
            held, self._held = self._held, None
            call = _Fingerprints(self._toolbox)
            call.add(held)
            if call.complete <= may_repeat.complete and call.complete:
                held = [Notice(NoticeCode.SHADOW_CALL_REMOVED, "repeats a rescued call")]
            self._scanner.out.extend(held)
        elif isinstance(event, ToolCallDelta):
            self._held_chars += len(event.json)
            if self._held_chars > self._limits.held_chars:
                raise LimitExceeded("held_chars", self._limits.held_chars)

    def _promote(self) -> None:
        """Send the deferred calls of the reasoning, unless they are copies or drafts."""
        deferred = self._scanner.deferred
        if deferred and (self._scanner.suppressed or self._answer_calls):
            self._scanner.out.append(Notice(NoticeCode.SHADOW_CALL_REMOVED, "in the reasoning"))
        elif self._has_answer:
            # A broken draft must not fail the answer after it.
            self._scanner.out.extend(_complete(deferred))
        else:
            self._scanner.out.extend(deferred)


def _complete(events: Iterable[Event]) -> list[Event]:
    """Return the events of the complete calls, and a notice for each other call."""
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
    """Checksums that recognise repeated calls: by tool, and by arguments regardless of spelling.

    A relay that parses a call and serialises it again changes its white space and escapes.
    """

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self.complete: set[tuple[str, int]] = set()
        self._name = ""
        self._sum = 0

    def add(self, events: Iterable[Event]) -> bool:
        """Add the calls in these events; return whether one was completed."""
        has_call = False
        for event in events:
            match event:
                case ToolCallStart(name=name):
                    self._name, self._sum = self._toolbox.resolve(name), 0
                case ToolCallDelta(json=json):
                    self._sum = crc32(_plain(json), self._sum)
                case ToolCallEnd():
                    self.complete.add((self._name, self._sum))
                    has_call = True
        return has_call


def _plain(json: str) -> bytes:
    """Remove white space and optional escapes from a JSON fragment; lone surrogates stay."""
    if "\\" in json:
        json = _ESCAPE.sub(_unescaped, json)
    return "".join(json.split()).encode("utf-16-le", "surrogatepass")


def _unescaped(escape: "Match[str]") -> str:
    return chr(int(escape[1], 16)) if escape[1] else escape[2] or escape[0]
