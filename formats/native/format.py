"""A native format: the grammars that a model family writes, and its special tokens."""

from collections.abc import Iterable, Sequence

from formats.native.grammar import Grammar
from formats.native.markers import Atoms, MarkerSet, literal
from formats.native.token_grammar import TokenGrammar

THINK = "THINK"
THINK_END = "THINK_END"
TURN_MARKER = "TURN_MARKER"
FINAL_MARKER = "FINAL_MARKER"
# Ordinary text contains shorter ones.
_SHORTEST_TOKEN = 4


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
        markers: dict[str, Sequence[Atoms]] = {}
        self.grammar_of: dict[str, Grammar] = {}
        for grammar in grammars:
            markers |= grammar.spellings
            self.grammar_of |= dict.fromkeys(grammar.spellings, grammar)
        think = {THINK: [literal("<think>")], THINK_END: [literal("</think>")]}
        ends = {
            role: tokens
            for role, tokens in ((TURN_MARKER, turn_markers), (FINAL_MARKER, final_markers))
            if tokens
        }
        self.markers = MarkerSet(markers | think | ends)
        self.think_end = MarkerSet({THINK_END: think[THINK_END]})
        self.initials = self.markers.initials

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
