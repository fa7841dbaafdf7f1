"""What the machine and the readers of regions share: how a region opens, and how it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from re import Match
from typing import Protocol, TypeAlias

from formats.errors import Limits
from formats.native.markers import Atoms
from formats.native.output import Output
from formats.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Context:
    """What every reader of one response works with."""

    toolbox: Toolbox
    limits: Limits
    output: Output
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
    BEHIND = "the name follows the separator"


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
    holds_in_reasoning: bool
    """Whether a region in the reasoning channel waits for the end of the response.

    A special token ends the reasoning, so its call counts at once. A tag may be part of a draft.
    """

    def open(
        self, text: str, opener: "Match[str]", final: bool, context: Context, before: str
    ) -> "Opening | Verdict":
        """Decide a candidate; `before` is the end of the text before it."""
