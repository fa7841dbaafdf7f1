"""The format `auto`: reads the markup of every family, for models whose names tell nothing.

Only markup that is unmistakable counts, and only whole calls of declared tools (`declared_calls`).
The text of every family's sample is read as in its module. Left out are

- JSON objects and Python calls without markers, and the word `functools`: answers and programs look
  the same;
- tool outputs that the model invents: they hold no call;
- the markers of turns; those of reasoning are text, too, but a call between them is a draft.
"""

from collections.abc import Mapping
from itertools import chain

from formats.native.format import NativeFormat, ReasoningMarkers
from formats.native.grammar import Grammar
from formats.native.grammars.bare_objects import BareObjectsGrammar
from formats.native.grammars.json_envelope import EnvelopeGrammar
from formats.native.grammars.played_output import PlayedOutputGrammar
from formats.native.grammars.python_calls import BareCallsGrammar

# Where families share markup, the first of them is told. Step writes its tags between tokens of
# DeepSeek, and Phi ends a block that Granite does not end.
_FIRST = ("kimi", "qwen", "step", "deepseek", "jamba", "phi")
_LEFT_OUT = (BareCallsGrammar, BareObjectsGrammar, PlayedOutputGrammar)


def every_family(formats: Mapping[str, NativeFormat | None]) -> NativeFormat:
    """Return the format that reads all of these."""
    names = [*_FIRST, *(name for name in formats if name not in _FIRST)]
    families = [(name, native) for name in names if (native := formats[name])]
    in_text: dict[Grammar, str] = {}
    at_start: dict[Grammar, str] = {}
    for name, native in families:
        for found, grammars in ((in_text, native.grammars), (at_start, native.at_start)):
            for grammar in grammars:
                if not _begins_with_word(grammar) and not isinstance(grammar, _LEFT_OUT):
                    found.setdefault(grammar, name)
    reasoning = [native.reasoning for _, native in families]
    return NativeFormat(
        [*in_text],
        at_start=[*at_start],
        thinking=ReasoningMarkers(
            begin=[atoms for markers in reasoning for atoms in markers.begin],
            end=[atoms for markers in reasoning for atoms in markers.end],
        ),
        families=[*in_text.values(), *at_start.values()],
    )


def _begins_with_word(grammar: Grammar) -> bool:
    markers = chain(*grammar.spellings.values()) if isinstance(grammar, EnvelopeGrammar) else ()
    return any(atoms[0].isalpha() for atoms in markers)
