"""Kimi K2 and its successors up to K2.7.

    <|tool_calls_section_begin|>
    <|tool_call_begin|>functions.get_tide:0
    <|tool_call_argument_begin|>{"harbor": "Moss"}<|tool_call_end|>
    <|tool_calls_section_end|>

The header is `functions.NAME:N`, where N counts the calls of the whole conversation. Models imitate
the history, so the header also comes without its prefix, without its counter, as a bare counter, as
the id of another vendor's call, or without punctuation.
"""

import re

from formats.native.format import NativeFormat
from formats.native.grammar import Name, Unnamed
from formats.native.markers import literal
from formats.native.token_grammar import (
    ARGUMENTS_BEGIN,
    CALL_BEGIN,
    CALL_END,
    SECTION_BEGIN,
    SECTION_END,
    TokenGrammar,
    Tokens,
)
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
        )
    ],
    turn_markers=[
        literal(f"<|im_{token}|>") for token in ("end", "assistant", "middle", "system", "user")
    ],
    final_markers=[literal("[EOS]"), literal("[EOT]")],
)
