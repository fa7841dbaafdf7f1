"""Mistral, Mixtral, Devstral, Magistral and their relatives.

An array, of tokenizers before v11; Mistral's own fixtures close it with `[/TOOL_CALLS]`:

    [TOOL_CALLS] [{"name": "get_tide", "arguments": {"harbor": "Moss"}}]

A token for each call, from v11 on; models leave out `[CALL_ID]` and `[ARGS]`:

    [TOOL_CALLS]get_tide[CALL_ID]a1B2c3D4e[ARGS]{"harbor": "Moss"}

Reasoning, from v13 on:

    [THINK]The harbor is Moss.[/THINK]
"""

import re

from formats.native.format import NativeFormat, ReasoningMarkers
from formats.native.grammars.json_envelope import BLOCK, BLOCK_END, EnvelopeGrammar
from formats.native.grammars.named_object import CALL_BEGIN, CALL_END, NamedObjectGrammar
from formats.native.markers import literal

_CALLS = [literal("[TOOL_CALLS]")]
_CALLS_END = [literal("[/TOOL_CALLS]")]
_NAME = (r"\s{0,32}+", r"[A-Za-z0-9_.:/-]{1,128}+", r"\s{0,32}+")
# If an object follows, this is not prose about the tokens, but a call with a broken name.
_ANY_NAME = (r"[^\[\]{}]{0,160}+",)
_ID = (*literal("[CALL_ID]"), r"[^\[\]{}]{0,64}+")
_ARGS = literal("[ARGS]")
_BEFORE_OBJECT = (r"\s{0,32}+", r"(?=\{)")

MISTRAL = NativeFormat(
    [
        EnvelopeGrammar({BLOCK: _CALLS, BLOCK_END: _CALLS_END}, defers_in_reasoning=False),
        NamedObjectGrammar(
            {CALL_BEGIN: _CALLS, CALL_END: [*_CALLS_END, literal("</s>")]},
            [
                _NAME + _ARGS,
                _NAME + _ID + _ARGS,
                _NAME + _ID + _BEFORE_OBJECT,
                _NAME + _BEFORE_OBJECT,
                _ANY_NAME + _ARGS + _BEFORE_OBJECT,
                _ANY_NAME + _ID + _ARGS + _BEFORE_OBJECT,
            ],
            re.compile(
                r"\s*(?P<name>[A-Za-z0-9_.:/-]*)\s*(?:\[CALL_ID\](?P<id>[^\[]*))?(?:\[ARGS\]\s*)?"
            ),
        ),
    ],
    reasoning=ReasoningMarkers(begin=[literal("[THINK]")], end=[literal("[/THINK]")]),
    # `</s>` also closes a tag of HTML.
    final_markers=[literal("</s>")],
)
