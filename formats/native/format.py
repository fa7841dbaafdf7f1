"""A native format: the grammars that a family of models writes, and the tokens around them."""

from collections.abc import Iterable, Sequence

from formats.native.grammar import Grammar
from formats.native.markers import Atoms, MarkerSet, literal
from formats.native.token_grammar import TokenGrammar

THINK = "THINK"
THINK_END = "THINK_END"
TURN_MARKER = "TURN_MARKER"
FINAL_MARKER = "FINAL_MARKER"
# Anything shorter would be found in ordinary text.
_SHORTEST_TOKEN = 4


class NativeFormat:
    """`strays` are the tokens between turns. `lasts` end a turn too, but people also write them:
    they are tokens only at the very end of the text.
    """

    def __init__(
        self,
        grammars: Sequence[Grammar],
        *,
        turn_markers: Sequence[Atoms] = (),
        final_markers: Sequence[Atoms] = (),
    ) -> None:
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

    def spelled(self, more: Iterable[tuple[str, str]]) -> "NativeFormat":
        """This format with more spellings, (role, text), of the tokens of its sections.

        Raises ValueError for a role that it does not have, or a spelling that cannot be a token.
        """
        grammars = list(self._grammars)
        for role, text in more:
            if len(text) < _SHORTEST_TOKEN or text[0].isspace() or text[0].isalnum():
                raise ValueError(
                    f"{text!r} cannot mark a call: it must have {_SHORTEST_TOKEN} characters and "
                    "begin with a sign"
                )
            for place, grammar in enumerate(grammars):
                if isinstance(grammar, TokenGrammar) and role in grammar.spellings:
                    grammars[place] = grammar.spelled(role, literal(text))
                    break
            else:
                roles = sorted(
                    {r for g in grammars if isinstance(g, TokenGrammar) for r in g.spellings}
                )
                raise ValueError(f"unknown token {role!r}; it has {', '.join(roles) or 'none'}")
        return NativeFormat(
            grammars, turn_markers=self._turn_markers, final_markers=self._final_markers
        )
