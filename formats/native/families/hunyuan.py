"""Tencent's Hunyuan A13B and HY3.

A13B:

    <tool_calls>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]</tool_calls>

HY3, whose tags may all have the same suffix, `<tool_call:opensource>`; the schema gives the types:

    <tool_calls><tool_call>get_tide<tool_sep>
    <arg_key>harbor</arg_key><arg_value>Moss</arg_value>
    </tool_call></tool_calls>
"""

from formats.native.definition import Document
from formats.native.families.shared import TOOL_CALLS

_CALL = "<tool_call{suffix}>{blank}{name}{blank}"
HUNYUAN: Document = {
    "grammars": [
        {
            "kind": "tags",
            "markers": {
                "BLOCK": ["<tool_calls{suffix}>"],
                # Without the separator, the next tag shows where the name ends.
                "FUNCTION": [f"{_CALL}<tool_sep{{suffix}}>", f"{_CALL}{{tag}}"],
                "PARAMETER": ["<arg_key{suffix}>{key}</arg_key{suffix}>{gap}<arg_value{suffix}>"],
                "PARAMETER_END": ["</arg_value{suffix}>"],
                "FUNCTION_END": ["</tool_call{suffix}>"],
                "BLOCK_END": ["</tool_calls{suffix}>"],
            },
        },
        TOOL_CALLS,
    ],
    "turn_markers": ["<|eos|>", "<|startoftext|>"],
    "detect": {"patterns": ["*hunyuan*", "*hy3*", "*hy-3*"]},
    "sample": "<tool_calls><tool_call>get_tide<tool_sep>\n"
    "<arg_key>harbor</arg_key><arg_value>Moss</arg_value>\n</tool_call></tool_calls>",
}
