"""MiniMax M1, M2 and M3, where the upstream does not parse the native text.

M1, a JSON object a line:

    <tool_calls>
    {"name": "get_tide", "arguments": {"harbor": "Moss"}}
    </tool_calls>

M2 to M2.7; the schema gives the types of the values:

    <minimax:tool_call>
    <invoke name="get_tide">
    <parameter name="harbor">Moss</parameter>
    </invoke>
    </minimax:tool_call>

M3 writes a token before every tag. Parameters are elements named after their keys; a list has an
element for each item:

    ]<]minimax[>[<tool_call>
    ]<]minimax[>[<invoke name="get_tides">
    ]<]minimax[>[<harbors>]<]minimax[>[<item>Moss]<]minimax[>[</item>]<]minimax[>[</harbors>
    ]<]minimax[>[</invoke>
    ]<]minimax[>[</tool_call>

Values are as the model means them: the chat templates do not escape them, so entities are data.
"""

import re

from formats.native.families.jamba import TOOL_CALLS
from formats.native.format import NativeFormat, ReasoningMarkers
from formats.native.grammars.attribute_tags import function_tags, invoke_grammar, read_function
from formats.native.grammars.tag_grammar import (
    BLOCK,
    BLOCK_END,
    CUT_FUNCTION,
    FUNCTION,
    PARAMETER,
    PARAMETER_END,
    Parameter,
    TagGrammar,
)
from formats.native.markers import literal

_PREFIX = "]<]minimax[>["
_PREFIX_OPEN = literal(f"{_PREFIX}<")
_PREFIX_CLOSE = literal(f"{_PREFIX}</")
# Clients name parameters `-A` or `-n`.
_KEY = r"[^<>/\n][^<>\n]{0,127}"
_ELEMENTS = re.compile(rf"{re.escape(_PREFIX)}<(?:(?P<begin>{_KEY})|/(?P<end>{_KEY}))>")
_PREFIXED = function_tags(_PREFIX_OPEN, _PREFIX_CLOSE)
_BARE = function_tags(literal("<"), literal("</"))

# Leaks were seen that lack the token before the first tags.
M3 = TagGrammar(
    {
        BLOCK: [(*_PREFIX_OPEN, *literal("tool_call>")), literal("<tool_call>")],
        **_PREFIXED,
        FUNCTION: [*_PREFIXED[FUNCTION], *_BARE[FUNCTION]],
        CUT_FUNCTION: [*_PREFIXED[CUT_FUNCTION], *_BARE[CUT_FUNCTION]],
        BLOCK_END: [(*_PREFIX_CLOSE, *literal("tool_call>"))],
        PARAMETER: [(*_PREFIX_OPEN, r"[^<>/\n]", r"[^<>\n]{0,127}", ">")],
        PARAMETER_END: [(*_PREFIX_CLOSE, r"[^<>/\n]", r"[^<>\n]{0,127}", ">")],
    },
    read_function,
    lambda tag: Parameter(tag[len(_PREFIX) + 1 : -1]),
    strips_newlines=False,
    elements=_ELEMENTS,
)
MINIMAX = NativeFormat(
    [
        invoke_grammar("minimax:tool_call"),
        M3,
        TOOL_CALLS,
    ],
    reasoning=ReasoningMarkers([literal("<mm:think>")], [literal("</mm:think>")]),
    turn_markers=[literal(token) for token in ("[e~[", "]~b]", "]~!b[")],
)
