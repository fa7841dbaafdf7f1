"""The interface between the text scanner and the grammars.

A region is the part of a text that holds calls. A grammar decides whether a marker opens one, and
returns a reader for it; the reader reports the calls to a `CallOutput`.
"""

from collections.abc import Callable, Mapping, MutableSequence, Sequence
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

# Enough to recognise a broken call; the transcript has the rest.
_DETAIL_CHARS = 200
_MAX_FAULTS = 8


class CallOutput:
    """Appends events of calls to `events`, which its owner may replace between regions."""

    def __init__(self, held_chars: int | None = None) -> None:
        """`held_chars` limits arguments that cannot be sent yet."""
        self.events: MutableSequence[Event] = []
        self.held_chars = held_chars
        self.is_empty = True
        """True if nothing was reported since the owner set it."""
        self._argument_chars = 0
        self._faults = 0
        self._is_open = False

    def start(self, name: str, call_id: str = "") -> None:
        self.events.append(Notice(NoticeCode.RESCUED, name))
        self.events.append(ToolCallStart(id=call_id, name=name))
        self._is_open = True
        self.is_empty = False

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
        # A text full of opening markers would make as many faults; the first fails the message.
        self._faults += 1
        if self._is_open or self._faults <= _MAX_FAULTS:
            self._is_open = False
            self.is_empty = False
            self.events.append(ToolCallFailed(fault, detail[:_DETAIL_CHARS]))

    def notice(self, code: NoticeCode, detail: str = "") -> None:
        self.is_empty = False
        self.events.append(Notice(code, detail[:_DETAIL_CHARS]))

    def text(self) -> str:
        """Return the arguments collected so far."""
        return "".join(event.json for event in self.events if isinstance(event, ToolCallDelta))

    def fail_as(self, captured: "CallOutput") -> None:
        """Report the faults of a call that was captured."""
        for event in captured.events:
            if isinstance(event, ToolCallFailed):
                self.fail(event.fault, event.detail)


class Unnamed(Enum):
    """Reasons why a header gives no tool name."""

    BAD = "unusable"
    COUNTER = "only a counter or an id: infer the tool from the arguments"
    AFTER_SEPARATOR = "the name follows the separator"


Name: TypeAlias = str | Unnamed


@dataclass(frozen=True, slots=True)
class Context:
    """Shared by all readers of one response."""

    toolbox: Toolbox
    limits: Limits
    output: CallOutput
    #: Fail a section without an end token, even if its calls are complete.
    strict: bool = False

    def declares(self, name: Name) -> bool:
        """Return whether this is a declared tool: without its opening markers, a call must be."""
        return isinstance(name, str) and self.toolbox.resolve(name) in self.toolbox


class Reader(Protocol):
    """Reads one region, a step at a time.

    `step` reads `text` from `pos` on and returns the position up to which it has consumed it, or
    None if it needs more text. `final` means that no more text will come. Text that a closed
    reader has not consumed is ordinary text. A reader that has to read consumed text again puts it
    into `rewind`.
    """

    closed: bool
    rewind: str

    def step(self, text: str, pos: int, final: bool) -> int | None: ...


Step: TypeAlias = Callable[[str, int, bool], int | None]


class StateReader:
    """A reader whose state is the method that takes the next step."""

    def __init__(self, context: Context, first: Step) -> None:
        self.closed = False
        self.rewind = ""
        self._context = context
        self._state = first

    def step(self, text: str, pos: int, final: bool) -> int | None:
        return self._state(text, pos, final)

    def _drop_before(
        self, marker: "Match[str] | None", text: str, pos: int, final: bool
    ) -> int | None:
        """Drop the text up to `marker`, which is cut off or missing; at the end, drop all."""
        if final:
            self.closed = True
            return len(text)
        end = marker.start() if marker else len(text)
        return end if end > pos else None


class Verdict(Enum):
    UNDECIDED = "more text must come"
    RELEASED = "not a call: the opener is text"
    REMOVED = "a stray token: it is neither text nor a call"
    TRUNCATED = "the text ends inside the opening"


@dataclass(frozen=True, slots=True)
class Opening:
    """A region begins: `reader` reads it from `pos` on."""

    reader: Reader
    pos: int


@dataclass(frozen=True, slots=True)
class Passage:
    """Text begins at `pos`, which is reasoning or not, although it came with other text."""

    is_reasoning: bool
    pos: int


class Grammar(Protocol):
    """One way to write calls in text."""

    spellings: Mapping[str, Sequence[Atoms]]
    """Its markers, by role."""
    closers: Mapping[str, str]
    """The role of the marker that closes each opener, if a stray one is removed.

    If the opener is text, so is everything up to its closer: prose about markers stays whole.
    """
    defers_in_reasoning: bool
    """True if calls in the reasoning are delivered only at the end of the response.

    A special token ends the reasoning, so its call is delivered at once. A tag may be a draft.
    """

    def open(
        self, text: str, opener: "Match[str]", final: bool, context: Context, before: str
    ) -> "Opening | Passage | Verdict":
        """Decide whether `opener` opens a region; `before` is the end of the text before it."""
