"""DeepSeek V3, R1, V3.1, V3.2 and V4, where the upstream does not parse the native text.

V3 and R1, with the name after the separator and the arguments in a fence:

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_tide
    ```json
    {"harbor": "Moss"}
    ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>

V3.1:

    <｜tool▁calls▁begin｜>
    <｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>{"harbor": "Moss"}<｜tool▁call▁end｜>
    <｜tool▁calls▁end｜>

V3.2 (DSML); V4 names the block `tool_calls`, and relays write the bars in several ways:

    <｜DSML｜function_calls>
    <｜DSML｜invoke name="get_tide">
    <｜DSML｜parameter name="harbor" string="true">Moss</｜DSML｜parameter>
    </｜DSML｜invoke>
    </｜DSML｜function_calls>

An output that the model invents after its call:

    <｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>14:32<｜tool▁output▁end｜><｜tool▁outputs▁end｜>
"""

import re

from formats.native.format import NativeFormat
from formats.native.grammar import Name, Unnamed
from formats.native.grammars.attribute_tags import (
    ANTHROPIC_TAGS,
    function_tags,
    parameter_tags,
    read_function,
    read_parameter,
)
from formats.native.grammars.played_output import PlayedOutputGrammar
from formats.native.grammars.tag_grammar import BLOCK, BLOCK_END, TagGrammar
from formats.native.grammars.token_grammar import (
    ARGUMENTS_BEGIN,
    CALL_BEGIN,
    CALL_END,
    SECTION_BEGIN,
    SECTION_END,
    TokenGrammar,
    Tokens,
)
from formats.native.markers import Atoms, literal
from formats.toolbox import Toolbox

_FENCED = re.compile(r"\s*([^\s`]+)\s*(?:```[A-Za-z]*\s*)?(?:```\s*)?")
_USABLE = re.compile(r"[A-Za-z0-9_.:-]+")


def _token(words: str) -> Atoms:
    """Return the atoms of a token; distilled models write `_`, `\\_` or a space instead of ▁."""
    separator = (r"(?:▁|\\?_|[ ])",)
    atoms: Atoms = literal("<｜")
    for index, word in enumerate(words.split()):
        atoms += (separator if index else ()) + literal(word)
    return atoms + literal("｜>")


def _read_header(header: str, toolbox: Toolbox) -> Name:
    if header == "function" and header not in toolbox:
        return Unnamed.AFTER_SEPARATOR
    return header if _USABLE.fullmatch(header) else Unnamed.BAD


def _read_preamble(preamble: str) -> Name:
    if not preamble.strip():
        return "function"  # V3.1, with a tool of this name
    fenced = _FENCED.fullmatch(preamble)
    return fenced[1] if fenced else Unnamed.BAD


_TURN_MARKERS = [
    _token(words) for words in ("begin of sentence", "end of sentence", "User", "Assistant")
]

_BARS = "[|｜‖]{1,2}"
_DSML: Atoms = ("[ ]?", _BARS, "[ ]?", *literal("DSML"), "[ ]?", _BARS, "[ ]?")
_OPEN: Atoms = ("<", *_DSML)
_CLOSE: Atoms = ("<", "/", *_DSML)
_BLOCK_NAME = "(?!invoke|parameter)[a-z_]{1,24}"

DEEPSEEK = NativeFormat(
    [
        TokenGrammar(
            Tokens(
                {
                    SECTION_BEGIN: [_token("tool calls begin"), _token("tool calls")],
                    CALL_BEGIN: [_token("tool call begin")],
                    ARGUMENTS_BEGIN: [_token("tool sep")],
                    CALL_END: [_token("tool call end")],
                    SECTION_END: [_token("tool calls end")],
                },
                _read_header,
                _read_preamble,
            )
        ),
        TagGrammar(
            {
                BLOCK: [(*_OPEN, _BLOCK_NAME, "[ ]?", ">")],
                **function_tags(_OPEN, _CLOSE),
                **parameter_tags(_OPEN, _CLOSE),
                BLOCK_END: [(*_CLOSE, _BLOCK_NAME, "[ ]?", ">")],
            },
            read_function,
            read_parameter,
            strips_newlines=False,
        ),
        ANTHROPIC_TAGS,
        PlayedOutputGrammar(
            begin=[_token("tool outputs begin"), _token("tool output begin")],
            end=[_token("tool outputs end"), _token("tool output end")],
            turn_markers=_TURN_MARKERS,
        ),
    ],
    turn_markers=_TURN_MARKERS,
)
