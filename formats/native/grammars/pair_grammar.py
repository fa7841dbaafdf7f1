"""Grammar of calls as a name, and pairs of a key and a value.

    BLOCK name { KEY key KEY_END VALUE value VALUE_END } BLOCK_END

What follows BLOCK decides: a name and KEY are a call, and so is a name and a JSON object, which is
read in place of the pairs. A name and BLOCK_END are a call without arguments only if the
tool is declared, because prose about the tags looks the same. The pairs are read like parameters
in tags.
"""

import re
from re import Match

from formats.native.grammar import Context, Opening, Verdict
from formats.native.grammars.tag_grammar import (
    BLOCK,
    BLOCK_END,
    PARAMETER,
    PARAMETER_END,
    Function,
    Parameter,
    TagGrammar,
    TagReader,
)
from formats.native.markers import PARTIAL, Atoms, MarkerSet

KEY = "KEY"

# A line break between tags may be a backslash and an n, as SGLang's parser accepts.
_GAP = r"(?:\s|\\(?:n|\Z))"
_NAME = re.compile(rf"{_GAP}{{0,64}}([A-Za-z0-9_.-]{{0,128}}){_GAP}{{0,64}}")
_OBJECT = re.compile(r'\{\s{0,64}(?:["}]|\Z)')


class PairGrammar(TagGrammar):
    def __init__(
        self,
        *,
        block: Atoms,
        key: Atoms,
        key_end: Atoms,
        value: Atoms,
        value_end: Atoms,
        block_end: Atoms,
    ) -> None:
        super().__init__(
            {
                BLOCK: [block],
                PARAMETER: [pair(key, key_end, value)],
                PARAMETER_END: [value_end],
                BLOCK_END: [block_end],
            },
            read_function=Function,
            read_parameter=read_pair,
            strips_newlines=False,
            space=re.compile(f"{_GAP}*"),
        )
        self._followers = MarkerSet({KEY: [key], BLOCK_END: [block_end]})

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
        if follower.lastgroup != BLOCK_END:
            return Opening(TagReader(self, context, Function(name)), end)
        if not name:
            return Opening(TagReader(self, context), end)
        if context.declares(name):
            return Opening(TagReader(self, context, Function(name)), end)
        return Verdict.RELEASED


def pair(key: Atoms, key_end: Atoms, value: Atoms) -> Atoms:
    """Return the atoms of a key and the opening tag of its value."""
    return (*key, "[^<]{1,256}", *key_end, f"{_GAP}{{0,64}}", *value)


def read_pair(tag: str) -> Parameter:
    return Parameter(tag.partition(">")[2].partition("<")[0].strip())


def _is_cut(follower: Match[str]) -> bool:
    return follower.lastgroup == PARTIAL or follower[0].rstrip() == "{"
