"""NVIDIA's Nemotron.

An array, of Llama-Nemotron (Deci) and Nemotron Nano 2:

    <TOOLCALL>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]</TOOLCALL>

Tags, of Nemotron 3, as of Qwen3-Coder:

    <tool_call>
    <function=get_tide>
    <parameter=harbor>
    Moss
    </parameter>
    </function>
    </tool_call>
"""

from formats.native.definition import Document
from formats.native.families.shared import QWEN_TAGS

NEMOTRON: Document = {
    "grammars": [
        {
            "kind": "envelope",
            "markers": {"BLOCK": ["<TOOLCALL>"], "BLOCK_END": ["</TOOLCALL>"]},
        },
        QWEN_TAGS,
    ],
    "turn_markers": [
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|im_end|>",
        "<|im_start|>",
        "<SPECIAL_11>",
        "<SPECIAL_12>",
    ],
    "detect": {"patterns": ["*nemotron*"]},
    "sample": '<TOOLCALL>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]</TOOLCALL>',
}
