"""Assembles a tool call of an Anthropic stream from the fragments of its block."""

from formats.anthropic.response_wire import Block
from formats.arguments import Arguments, Status
from formats.errors import Limits
from formats.events import (
    CallFault,
    Event,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
)
from formats.json_codec import value_or_none


class Call:
    """One `tool_use` block. Its fragments are kept until the calls before it have ended."""

    def __init__(self, block: Block, limits: Limits) -> None:
        self.stopped = False
        self._start: ToolCallStart | None = ToolCallStart(block.id or "", block.name or "")
        self._arguments = Arguments(limits)
        # Arguments in the start of the block, used if no fragments follow.
        self._initial = (value_or_none(block.input) or b"").decode()
        self._pending: list[str] = []
        self._abandoned = False
        self._failed = False

    @property
    def has_pending(self) -> bool:
        return bool(self._pending) or self._arguments.has_pending

    @property
    def is_plain(self) -> bool:
        """True if joining the fragments gives the arguments."""
        return self._arguments.is_plain

    def add(self, fragment: str) -> None:
        self._pending.append(fragment)

    def stop(self) -> None:
        self.stopped = True

    def abandon(self) -> None:
        """Fail the call, because the message ended before its block."""
        self.stopped = self._abandoned = True

    def stream(self) -> list[Event]:
        """Return events for the pending fragments, and for the end if the block has ended."""
        events: list[Event] = []
        if self._start:
            events.append(self._start)
            self._start = None
        for fragment in self._pending:
            events += self._read(fragment)
        self._pending.clear()
        return events + self._close() if self.stopped else events

    def _read(self, text: str) -> list[Event]:
        if self._failed or not text:
            return []
        forward, end = self._arguments.read(text)
        has_junk = self._arguments.status is Status.COMPLETE and bool(text[end:].strip())
        if has_junk:
            forward = forward[:-1]  # so that no client mistakes a failed call for a complete one
        events: list[Event] = [ToolCallDelta(forward)] if forward else []
        if self._arguments.status is Status.NON_OBJECT:
            return [*events, *self._fail(CallFault.NON_OBJECT_ARGS)]
        if self._arguments.status is Status.INVALID or has_junk:
            return [*events, *self._fail(CallFault.INVALID_JSON)]
        return events

    def _close(self) -> list[Event]:
        if self._abandoned:
            return [] if self._failed else self._fail(CallFault.TRUNCATED)
        events: list[Event] = []
        if self._arguments.status is Status.EMPTY:
            events = self._read(self._initial)
        self._arguments.finish()
        if self._failed:
            return events
        if self._arguments.status in (Status.EMPTY, Status.COMPLETE):
            return [*events, ToolCallEnd()]
        return [*events, *self._fail(CallFault.TRUNCATED)]

    def _fail(self, fault: CallFault) -> list[Event]:
        self._failed = True
        return [ToolCallFailed(fault)]
