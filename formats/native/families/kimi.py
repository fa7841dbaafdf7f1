"""Kimi K2 and its successors up to K2.7, and Kimi K3.

K2:

    <|tool_calls_section_begin|>
    <|tool_call_begin|>functions.get_tide:0
    <|tool_call_argument_begin|>{"harbor": "Moss"}<|tool_call_end|>
    <|tool_calls_section_end|>

The header is `functions.NAME:N`, where N counts the calls of the whole conversation. Models imitate
the history, so the header also comes without its prefix, without its counter, as a bare counter, as
the id of another vendor's call, or without punctuation.

K3, where only the tokens between bars are special, and the type of a value is in its tag:

    <|open|>think<|sep|>The harbor is Moss.<|close|>think<|sep|>
    <|open|>response<|sep|>Let me look.<|close|>response<|sep|>
    <|open|>tools<|sep|><|open|>call tool="get_tide" index="1"<|sep|>
    <|open|>argument key="harbor" type="string"<|sep|>Moss<|close|>argument<|sep|>
    <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>
"""

import re

from formats.native.format import NativeFormat, ReasoningMarkers
from formats.native.grammar import Name, Unnamed
from formats.native.grammars.attribute_tags import ANTHROPIC_TAGS
from formats.native.grammars.tag_grammar import (
    BLOCK,
    BLOCK_END,
    CUT_FUNCTION,
    FUNCTION,
    FUNCTION_END,
    PARAMETER,
    PARAMETER_END,
    Function,
    Parameter,
    TagGrammar,
)
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

_COUNTED = re.compile(r"(.+):\d+", re.DOTALL)
_USABLE = re.compile(r"[A-Za-z0-9_.:-]+")
_PUNCTUATION = re.compile(r"(?:(?<!\s)\s++)?([.:])\s*+")
_OTHERS_ID = re.compile(r"(?:call|toolu)_(?=.*\d).+")
_SQUASHED = re.compile(r"functions[._]?(.+?)_?\d+")


def read_header(header: str, toolbox: Toolbox) -> Name:
    # Detokenisers add spaces around punctuation, and models add newlines.
    header = _PUNCTUATION.sub(r"\1", header)
    if not header or header.isdigit():  # K2.5 leaves only the counter
        return Unnamed.COUNTER
    if not _USABLE.fullmatch(header):
        return Unnamed.BAD
    counted = _COUNTED.fullmatch(header)
    name = (counted[1] if counted else header).removeprefix("functions.")
    for candidate in (name, name.rpartition(".")[2]):
        if candidate in toolbox:
            return candidate
    if counted:
        return name or Unnamed.BAD
    # Clients that forbid dots and colons in ids turn `functions.f:3` into `functions_f_3`.
    squashed = _SQUASHED.fullmatch(header)
    if squashed and squashed[1] in toolbox:
        return squashed[1]
    return Unnamed.COUNTER if _OTHERS_ID.fullmatch(header) else Unnamed.BAD


# Detokenisers add spaces beside special tokens.
_BLANK = r"\s{0,4}"
_TEXT = r"(?:[^<]|<(?!\|(?:sep|open|close)\|>)){0,400}+"  # of attributes
_SEPARATOR = literal("<|sep|>")
_ATTRIBUTE = re.compile(r'\b(\w++)\s*+=\s*+"([^"]*)"')


def _open(name: str, attributes: str = "") -> Atoms:
    return (*literal("<|open|>"), _BLANK, *literal(name), attributes, _BLANK, *_SEPARATOR)


def _close(name: str) -> Atoms:
    return (*literal("<|close|>"), _BLANK, *literal(name), _BLANK, *_SEPARATOR)


def _attributes(tag: str) -> dict[str, str]:
    return {
        name: value.replace("&quot;", '"').replace("&amp;", "&")
        for name, value in _ATTRIBUTE.findall(tag)
    }


def _read_parameter(tag: str) -> Parameter:
    attributes = _attributes(tag)
    kind = attributes.get("type")
    return Parameter(
        attributes.get("key", ""), is_string=None if kind is None else kind == "string"
    )


_K3 = TagGrammar(
    {
        BLOCK: [_open("tools")],
        FUNCTION: [_open("call", rf"(?:\s{_TEXT})?")],
        CUT_FUNCTION: [(*literal("<|open|>"), _BLANK, *literal("call"), rf"\s{_TEXT}", r"(?=<\|)")],
        PARAMETER: [_open("argument", rf"\s{_TEXT}")],
        PARAMETER_END: [_close("argument")],
        FUNCTION_END: [_close("call")],
        BLOCK_END: [_close("tools")],
    },
    lambda tag: Function(_attributes(tag).get("tool", "").strip()),
    _read_parameter,
    strips_newlines=False,
    removes_stray_tags=True,
)

KIMI = NativeFormat(
    [
        TokenGrammar(
            Tokens(
                {
                    # The technical report has the singular; models mix both.
                    SECTION_BEGIN: [
                        literal("<|tool_calls_section_begin|>"),
                        literal("<|tool_call_section_begin|>"),
                    ],
                    CALL_BEGIN: [literal("<|tool_call_begin|>")],
                    ARGUMENTS_BEGIN: [
                        literal("<|tool_call_argument_begin|>"),
                        literal("<|tool_arguments_begin|>"),  # the report's spelling
                    ],
                    CALL_END: [
                        literal("<|tool_call_end|>"),
                        literal("<|tool_call_argument_end|>"),  # in lists of sanitizers, never seen
                    ],
                    SECTION_END: [
                        literal("<|tool_calls_section_end|>"),
                        literal("<|tool_call_section_end|>"),
                    ],
                },
                read_header,
            )
        ),
        _K3,
        ANTHROPIC_TAGS,
    ],
    reasoning=ReasoningMarkers([_open("think")], [_close("think")]),
    turn_markers=[
        *(literal(f"<|im_{token}|>") for token in ("end", "assistant", "middle", "system", "user")),
        _open("response"),
        _close("response"),
        _open("message", rf"(?:\s{_TEXT})?"),
        _close("message"),
        literal("<|end_of_msg|>"),
    ],
    final_markers=[literal("[EOS]"), literal("[EOT]")],
)
