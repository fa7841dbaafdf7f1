"""A call of an Anthropic stream, from the start of its block to its end."""

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
    """One `tool_use` block: its fragments may wait for the call before it."""

    def __init__(self, block: Block, limits: Limits) -> None:
        self.stopped = False
        self._start: ToolCallStart | None = ToolCallStart(block.id or "", block.name or "")
        self._arguments = Arguments(limits)
        self._whole = (value_or_none(block.input) or b"").decode()  # what the block itself brought
        self._waiting: list[str] = []
        self._given_up = False
        self._failed = False

    @property
    def has_pending(self) -> bool:
        return bool(self._waiting) or self._arguments.has_pending

    @property
    def is_plain(self) -> bool:
        """True if the fragments, joined, are the arguments."""
        return self._arguments.is_plain

    def add(self, fragment: str) -> None:
        self._waiting.append(fragment)

    def stop(self) -> None:
        self.stopped = True

    def give_up(self) -> None:
        """The message ends before the block does."""
        self.stopped = self._given_up = True

    def stream(self) -> list[Event]:
        """The events of what waited, and of the end once the block is closed."""
        events: list[Event] = []
        if self._start:
            events.append(self._start)
            self._start = None
        for fragment in self._waiting:
            events += self._read(fragment)
        self._waiting.clear()
        return events + self._close() if self.stopped else events

    def _read(self, text: str) -> list[Event]:
        if self._failed or not text:
            return []
        forward, end = self._arguments.read(text)
        events: list[Event] = [ToolCallDelta(forward)] if forward else []
        if self._arguments.status is Status.NON_OBJECT:
            return [*events, *self._fail(CallFault.NON_OBJECT_ARGS)]
        if self._arguments.status is Status.INVALID or text[end:].strip():
            return [*events, *self._fail(CallFault.INVALID_JSON)]
        return events

    def _close(self) -> list[Event]:
        if self._given_up:
            return [] if self._failed else self._fail(CallFault.TRUNCATED)
        events: list[Event] = []
        if self._arguments.status is Status.EMPTY:
            events = self._read(self._whole)
        self._arguments.finish()
        if self._failed:
            return events
        if self._arguments.status in (Status.EMPTY, Status.COMPLETE):
            return [*events, ToolCallEnd()]
        return [*events, *self._fail(CallFault.TRUNCATED)]

    def _fail(self, fault: CallFault) -> list[Event]:
        self._failed = True
        return [ToolCallFailed(fault)]
