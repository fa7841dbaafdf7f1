"""What the machine and the readers of regions share: how a region opens, and how it is read."""

from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from enum import Enum
from re import Match
from typing import Protocol, TypeAlias

from formats.errors import LimitExceeded, Limits
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
from formats.native.markers import Atoms
from formats.toolbox import Toolbox

# Enough of a broken call to recognise it by; the transcript has the rest.
_DETAIL_CHARS = 200
_FAULTS = 8


class CallOutput:
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


@dataclass(frozen=True, slots=True)
class Context:
    """What every reader of one response works with."""

    toolbox: Toolbox
    limits: Limits
    output: CallOutput
    #: Refuse a section that the model left open, although its calls are complete.
    strict: bool = False


class Reader(Protocol):
    """Reads one region, a step at a time.

    `step` looks at `text` from `pos` on and says up to where it is done with it, or None when it
    cannot go on before more text comes. With `final` no more will come. A closed reader leaves what
    it did not consume to the text around the region. A reader that must read again what it has
    already consumed puts it into `rewind`.
    """

    closed: bool
    rewind: str

    def step(self, text: str, pos: int, final: bool) -> int | None: ...


class Verdict(Enum):
    UNDECIDED = "more text must come"
    RELEASED = "not a call: the opener is text"
    REMOVED = "a stray token: it is neither text nor a call"
    TRUNCATED = "the text ends inside the opening"


class Unnamed(Enum):
    """What a header may say instead of a name."""

    BAD = "nothing usable"
    COUNTER = "only a counter or an id: the arguments must tell"
    AFTER_SEPARATOR = "the name follows the separator"


Name: TypeAlias = str | Unnamed


@dataclass(frozen=True, slots=True)
class Opening:
    """A candidate that has been decided: the region is read by `reader` from `pos` on."""

    reader: Reader
    pos: int


class Grammar(Protocol):
    """A way to write calls in text."""

    spellings: Mapping[str, Sequence[Atoms]]
    """Its markers, by role."""
    defers_in_reasoning: bool
    """Whether a region in the reasoning channel waits for the end of the response.

    A special token ends the reasoning, so its call counts at once. A tag may be part of a draft.
    """

    def open(
        self, text: str, opener: "Match[str]", final: bool, context: Context, before: str
    ) -> "Opening | Verdict":
        """Decide a candidate; `before` is the end of the text before it."""
