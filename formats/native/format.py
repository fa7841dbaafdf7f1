"""A native format: the grammars that a family of models writes, and the tokens around them."""

from collections.abc import Sequence

from formats.native.markers import Atoms, MarkerSet, literal
from formats.native.region import Grammar

THINK = "THINK"
THINK_END = "THINK_END"
STRAY = "STRAY"


class NativeFormat:
    """`strays` are the tokens that a model ends its turns with."""

    def __init__(self, grammars: Sequence[Grammar], *, strays: Sequence[str] = ()) -> None:
        markers: dict[str, Sequence[Atoms]] = {}
        self.grammar_of: dict[str, Grammar] = {}
        for grammar in grammars:
            markers |= grammar.spellings
            self.grammar_of |= dict.fromkeys(grammar.spellings, grammar)
        think = {THINK: [literal("<think>")], THINK_END: [literal("</think>")]}
        stray = {STRAY: [literal(token) for token in strays]} if strays else {}
        self.markers = MarkerSet(markers | think | stray)
        self.think_end = MarkerSet({THINK_END: think[THINK_END]})
        self.initials = self.markers.initials
