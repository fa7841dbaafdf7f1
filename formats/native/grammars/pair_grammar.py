"""Grammar of calls as a name, and pairs of a key and a value.

    BLOCK name { KEY key KEY_END VALUE value VALUE_END } BLOCK_END

What follows BLOCK decides: a name and KEY are a call, and so is a name and a JSON object, which is
read in place of the pairs. A name and BLOCK_END are a call without arguments only if the
tool is declared, because prose about the tags looks the same. The pairs are read like parameters
in tags.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from re import Match

from formats.native.grammar import Context, Opening, Verdict
from formats.native.grammars.tag_grammar import (
    BLOCK,
    BLOCK_END,
    Function,
    Parameter,
    TagGrammar,
    TagReader,
)
from formats.native.markers import PARTIAL, Atoms, MarkerSet

KEY = "KEY"

# A line break between tags may be a backslash and an n, as SGLang's parser accepts.
GAP = r"(?:\s|\\(?:n|\Z))"
_NAME = re.compile(rf"{GAP}{{0,64}}([A-Za-z0-9_.-]{{0,128}}){GAP}{{0,64}}")
_OBJECT = re.compile(r'\{\s{0,64}(?:["}]|\Z)')


class PairGrammar(TagGrammar):
    def __init__(
        self,
        tags: Mapping[str, Sequence[Atoms]],
        read_parameter: Callable[[str], Parameter],
    ) -> None:
        """`tags`: KEY, and what a grammar of tags has; PARAMETER is a key and the opening tag of
        its value."""
        super().__init__(
            {role: tags[role] for role in tags if role != KEY},
            read_function=Function,
            read_parameter=read_parameter,
            strips_newlines=False,
            space=re.compile(f"{GAP}*"),
        )
        self._followers = MarkerSet({KEY: tags[KEY], BLOCK_END: tags[BLOCK_END]})

    def open(
        self, text: str, opener: Match[str], final: bool, context: Context, before: str
    ) -> Opening | Verdict:
        if opener.lastgroup != BLOCK:
            return Verdict.RELEASED
        header = _NAME.match(text, opener.end())
        name, end = header[1], header.end()  # type: ignore[index, union-attr]
        follower = self._followers.match(text, end) or (name and _OBJECT.match(text, end))
        is_cut = end == len(text) or (follower and _is_cut(follower))
        if is_cut:
            return Verdict.TRUNCATED if final else Verdict.UNDECIDED
        if not follower:
            return Verdict.RELEASED
        if follower.lastgroup == BLOCK_END and not name:
            return Opening(TagReader(self, context), end)
        if follower.lastgroup != BLOCK_END or context.declares(name):
            tag = text[opener.start() : end]
            return Opening(TagReader(self, context, Function(name), tag), end)
        return Verdict.RELEASED


def _is_cut(follower: Match[str]) -> bool:
    return follower.lastgroup == PARTIAL or follower[0].rstrip() == "{"
