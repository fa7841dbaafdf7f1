"""What a region's reader says about the calls it finds."""

from collections.abc import MutableSequence

from formats.errors import LimitExceeded
from formats.events import (
    CallFault,
    Event,
    Notice,
    NoticeCode,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
)

# Enough of a broken call to recognise it by; the transcript has the rest.
_DETAIL_CHARS = 200
_FAULTS = 8


class Output:
    """Appends to `events`, which its owner may replace between regions."""

    def __init__(self, held_chars: int | None = None) -> None:
        """`held_chars` limits arguments that must wait before anybody sees them."""
        self.events: MutableSequence[Event] = []
        self.held_chars = held_chars
        self._argument_chars = 0
        self._faults = 0
        self._is_open = False

    def start(self, name: str) -> None:
        self.events.append(Notice(NoticeCode.RESCUED, name))
        self.events.append(ToolCallStart(id="", name=name))
        self._is_open = True

    def arguments(self, json: str) -> None:
        if json:
            self.events.append(ToolCallDelta(json))
            if self.held_chars is not None:
                self._argument_chars += len(json)
                if self._argument_chars > self.held_chars:
                    raise LimitExceeded("held_chars", self.held_chars)

    def end(self) -> None:
        self.events.append(ToolCallEnd())
        self._is_open = False

    def fail(self, fault: CallFault, detail: str = "") -> None:
        # A megabyte of openers is a megabyte of faults; the message fails by the first one.
        self._faults += 1
        if self._is_open or self._faults <= _FAULTS:
            self._is_open = False
            self.events.append(ToolCallFailed(fault, detail[:_DETAIL_CHARS]))

    def notice(self, code: NoticeCode, detail: str = "") -> None:
        self.events.append(Notice(code, detail[:_DETAIL_CHARS]))

    def text(self) -> str:
        """The argument text so far."""
        return "".join(event.json for event in self.events if isinstance(event, ToolCallDelta))

    def faults(self) -> list[Event]:
        return [event for event in self.events if isinstance(event, ToolCallFailed)]
