"""Meta's Llama 3 and 4, and models made from them.

JSON, only at the very start of the answer or after a token; `;` separates several calls:

    {"name": "get_tide", "parameters": {"harbor": "Moss"}}
    <|python_tag|>{"name": "get_tide", "parameters": {"harbor": "Moss"}}; {"name": "get_wind"}

Built-in tools, and custom tags:

    <|python_tag|>brave_search.call(query="tide in Moss")
    <function=get_tide>{"harbor": "Moss"}</function>

A list of Python calls, of Llama 3.2 and 4; the tokens are often missing:

    <|python_start|>[get_tide(harbor="Moss", days=2), get_wind()]<|python_end|>
"""

import re

from formats.native.families.qwen import HERMES, QWEN_TAGS
from formats.native.format import NativeFormat
from formats.native.grammars.bare_objects import BareObjectsGrammar
from formats.native.grammars.json_envelope import BLOCK, EnvelopeGrammar
from formats.native.grammars.named_object import CALL_BEGIN, CALL_END, NamedObjectGrammar
from formats.native.grammars.python_calls import (
    CALLS_BEGIN,
    CALLS_END,
    BareCallsGrammar,
    PythonCallsGrammar,
)
from formats.native.markers import literal

_BEGIN = [literal("<|python_tag|>"), literal("<|python_start|>")]
_PYTHON_END = literal("<|python_end|>")
_TURN_ENDS = [literal(f"<|{token}|>") for token in ("eom_id", "eot_id", "eot", "end_of_text")]
_ENVELOPES = EnvelopeGrammar({BLOCK: _BEGIN}, separator=";", defers_in_reasoning=False)
_CUSTOM_TAG = NamedObjectGrammar(
    {CALL_BEGIN: [literal("<function=")], CALL_END: [literal("</function>")]},
    [(r"[A-Za-z_]", r"[\w.:/-]{0,127}+", ">", r"\s{0,32}+", r"(?=\{)")],
    re.compile(r"(?P<name>[^>]*)>\s*(?P<id>)"),
    defers_in_reasoning=True,
    is_special=False,
)
_LIST_ENDS = [_PYTHON_END, *_TURN_ENDS]


def _read_name(function: str) -> str:
    return function.removesuffix(".call")


LLAMA = NativeFormat(
    [
        _ENVELOPES,
        PythonCallsGrammar({CALLS_BEGIN: _BEGIN, CALLS_END: [_PYTHON_END]}, read_name=_read_name),
        BareCallsGrammar(_LIST_ENDS),
        _CUSTOM_TAG,
        # Models made from Llama, whatever their name, may write these too.
        QWEN_TAGS,
        HERMES,
    ],
    at_start=[BareObjectsGrammar(_ENVELOPES), BareCallsGrammar(_LIST_ENDS, at_start=True)],
    turn_markers=[
        *_TURN_ENDS,
        *(
            literal(f"<|{token}|>")
            for token in (
                "begin_of_text",
                "start_header_id",
                "end_header_id",
                "header_start",
                "header_end",
            )
        ),
    ],
)
