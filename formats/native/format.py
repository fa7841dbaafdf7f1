"""A native format: the grammars that a model family writes, and its special tokens.

Grammars may share markers: `<tool_call>` opens JSON, tags, or a name with keys and values. They are
asked in order, and the first that does not take the marker for text decides.
"""

from collections.abc import Iterable, Sequence
from re import Match
from typing import NamedTuple

from formats.native.grammar import Context, Grammar, Opening, Verdict
from formats.native.markers import PARTIAL, Atoms, MarkerSet, literal
from formats.native.token_grammar import TokenGrammar

CALL = "CALL"
THINK = "THINK"
THINK_END = "THINK_END"
TURN_MARKER = "TURN_MARKER"
FINAL_MARKER = "FINAL_MARKER"
# Ordinary text contains shorter ones.
_SHORTEST_TOKEN = 4


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
        turn_markers: Sequence[Atoms] = (),
        final_markers: Sequence[Atoms] = (),
    ) -> None:
        """`turn_markers` separate turns and are removed wherever they appear. `final_markers` also
        end a turn, but people write them too, so they are removed only at the end of the text.
        """
        self._grammars = grammars
        self._turn_markers = turn_markers
        self._final_markers = final_markers
        self._markers_of = [(grammar, MarkerSet(grammar.spellings)) for grammar in grammars]
        calls = dict.fromkeys(
            atoms
            for grammar in grammars
            for spellings in grammar.spellings.values()
            for atoms in spellings
        )
        think = {THINK: [literal("<think>")], THINK_END: [literal("</think>")]}
        ends = {
            role: tokens
            for role, tokens in ((TURN_MARKER, turn_markers), (FINAL_MARKER, final_markers))
            if tokens
        }
        self.markers = MarkerSet({CALL: [*calls]} | think | ends)
        """CALL is any marker of a grammar."""
        self.think_end = MarkerSet({THINK_END: think[THINK_END]})
        self.initials = self.markers.initials

    def candidates(self, text: str, pos: int) -> list[Candidate]:
        """The grammars that have a marker, or the beginning of one, at this place."""
        return [
            Candidate(grammar, marker)
            for grammar, markers in self._markers_of
            if (marker := markers.match(text, pos))
        ]

    def with_spellings(self, spellings: Iterable[tuple[str, str]]) -> "NativeFormat":
        """Return a format that also accepts these spellings, (role, text), of its tokens.

        Raises ValueError for an unknown role, or for a spelling that is too short or ambiguous.
        """
        grammars = list(self._grammars)
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
        return NativeFormat(
            grammars, turn_markers=self._turn_markers, final_markers=self._final_markers
        )


class Decision(NamedTuple):
    verdict: Opening | Verdict
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
