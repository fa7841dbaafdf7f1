"""A native format: the grammars that a model family writes, and its special tokens.

Grammars may share markers: `<tool_call>` opens JSON, tags, or a name with keys and values. They are
asked in order, and the first that does not take the marker for text decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from re import Match
from typing import NamedTuple

from formats.native.grammar import Context, Grammar, Opening, Passage, Verdict
from formats.native.grammars.token_grammar import TokenGrammar
from formats.native.markers import PARTIAL, Atoms, MarkerSet, literal

CALL = "CALL"
START_CALL = "START_CALL"
THINK = "THINK"
THINK_END = "THINK_END"
REASONING_BEGIN = "REASONING_BEGIN"
REASONING_END = "REASONING_END"
TURN_MARKER = "TURN_MARKER"
FINAL_MARKER = "FINAL_MARKER"
# Ordinary text contains shorter ones.
_SHORTEST_TOKEN = 4


class SplitThinking(StrEnum):
    """What to do with `<think>` in the text. A family's own markers of reasoning always count."""

    NEVER = "never"
    """It is text."""
    MARKED = "marked"
    """The text between `<think>` and `</think>` is reasoning."""
    OPENED = "opened"
    """The same, and the answer begins inside: the model's template has opened the thinking."""


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """Markers in the text around reasoning. They are removed, and what they enclose is moved."""

    begin: Sequence[Atoms] = ()
    end: Sequence[Atoms] = ()


_NONE = ReasoningMarkers()
_THINK = ReasoningMarkers([literal("<think>")], [literal("</think>")])


class Candidate(NamedTuple):
    """A grammar, and its marker at a place in the text."""

    grammar: Grammar
    marker: Match[str]

    @property
    def closer(self) -> str | None:
        """The role of the marker up to which the text is only quoted, if this one is."""
        return self.grammar.closers.get(self.marker.lastgroup or "")


class NativeFormat:
    def __init__(
        self,
        grammars: Sequence[Grammar],
        *,
        at_start: Sequence[Grammar] = (),
        reasoning: ReasoningMarkers = _NONE,
        split_thinking: SplitThinking = SplitThinking.NEVER,
        turn_markers: Sequence[Atoms] = (),
        final_markers: Sequence[Atoms] = (),
        thinking: ReasoningMarkers = _NONE,
        families: Sequence[str] = (),
    ) -> None:
        """`at_start`: grammars whose markers count only at the start of the text. `turn_markers`
        separate turns and are removed wherever they appear. `final_markers` also end a turn, but
        people write them too, so they are removed only at the end of the text. `thinking`:
        markers of reasoning that stay text, as `<think>` does; calls between them are drafts.
        `families`: the family of each grammar, if there are several; only whole calls of declared
        tools count then.
        """
        self.grammars = grammars
        self.at_start = at_start
        self.reasoning = reasoning
        self._split_thinking = split_thinking
        self._turn_markers = turn_markers
        self._final_markers = final_markers
        self._thinking = thinking
        self.families = families
        self.opens_in_reasoning = split_thinking is SplitThinking.OPENED
        self._markers_of = _markers_of(grammars)
        self._starters_of = _markers_of(at_start)
        splits = split_thinking is not SplitThinking.NEVER
        text, moved = (_NONE, _THINK) if splits else (_THINK, _NONE)
        ends = {
            THINK_END: (*thinking.end, *text.end),
            REASONING_END: (*reasoning.end, *moved.end),
        }
        own = {
            THINK: (*thinking.begin, *text.begin),
            REASONING_BEGIN: (*reasoning.begin, *moved.begin),
            **ends,
            TURN_MARKER: turn_markers,
            FINAL_MARKER: final_markers,
        }
        self.markers = _marker_set({CALL: _every_marker(grammars), **own})
        """CALL is any marker of a grammar."""
        self.starters = _marker_set({START_CALL: _every_marker(at_start)}) if at_start else None
        """START_CALL is any marker of a grammar at the start of the text."""
        self.think_end = _marker_set(ends)
        self.initials = self.markers.initials

    def candidates(self, text: str, pos: int, *, at_start: bool = False) -> list[Candidate]:
        """The grammars that have a marker, or the beginning of one, at this place."""
        return [
            Candidate(grammar, marker)
            for grammar, markers in (self._starters_of if at_start else self._markers_of)
            if (marker := markers.match(text, pos))
        ]

    def family_of(self, grammar: Grammar) -> str:
        return self.families[[*self.grammars, *self.at_start].index(grammar)]

    def with_split_thinking(self, split_thinking: SplitThinking) -> "NativeFormat":
        """Return the format with another treatment of `<think>` in the text."""
        return self._copy(self.grammars, split_thinking)

    def with_spellings(self, spellings: Iterable[tuple[str, str]]) -> "NativeFormat":
        """Return a format that also accepts these spellings, (role, text), of its tokens.

        Raises ValueError for an unknown role, or for a spelling that is too short or ambiguous.
        """
        grammars = list(self.grammars)
        for role, text in spellings:
            if len(text) < _SHORTEST_TOKEN or text[0].isspace() or text[0].isalnum():
                raise ValueError(
                    f"{text!r} cannot mark a call: use at least {_SHORTEST_TOKEN} characters, and "
                    "begin with a punctuation mark or symbol"
                )
            for index, grammar in enumerate(grammars):
                if isinstance(grammar, TokenGrammar) and role in grammar.spellings:
                    grammars[index] = grammar.with_spelling(role, literal(text))
                    break
            else:
                roles = sorted(
                    {r for g in grammars if isinstance(g, TokenGrammar) for r in g.spellings}
                )
                raise ValueError(
                    f"unknown token {role!r}; this format has {', '.join(roles) or 'none'}"
                )
        return self._copy(grammars, self._split_thinking)

    def _copy(self, grammars: Sequence[Grammar], split_thinking: SplitThinking) -> "NativeFormat":
        return NativeFormat(
            grammars,
            at_start=self.at_start,
            reasoning=self.reasoning,
            split_thinking=split_thinking,
            turn_markers=self._turn_markers,
            final_markers=self._final_markers,
            thinking=self._thinking,
            families=self.families,
        )


class Decision(NamedTuple):
    verdict: Opening | Passage | Verdict
    candidate: Candidate


def decide(
    candidates: Sequence[Candidate], text: str, final: bool, context: Context, before: str
) -> Decision:
    """Decide whether a marker opens a region, and by which grammar.

    Every grammar's verdict depends on the text alone, so an undecided one keeps the next waiting.
    """
    decision = Decision(Verdict.RELEASED, candidates[0])
    for candidate in candidates:
        if candidate.marker.lastgroup != PARTIAL:
            verdict = candidate.grammar.open(text, candidate.marker, final, context, before)
        else:
            verdict = Verdict.RELEASED if final else Verdict.UNDECIDED
        if verdict is Verdict.REMOVED:
            decision = Decision(verdict, candidate)
        elif verdict is not Verdict.RELEASED:
            return Decision(verdict, candidate)
    return decision


def _markers_of(grammars: Sequence[Grammar]) -> list[tuple[Grammar, MarkerSet]]:
    return [(grammar, MarkerSet(grammar.spellings)) for grammar in grammars]


def _every_marker(grammars: Sequence[Grammar]) -> Sequence[Atoms]:
    return [
        *dict.fromkeys(
            atoms
            for grammar in grammars
            for spellings in grammar.spellings.values()
            for atoms in spellings
        )
    ]


def _marker_set(markers: Mapping[str, Sequence[Atoms]]) -> MarkerSet:
    return MarkerSet({role: atoms for role, atoms in markers.items() if atoms})
