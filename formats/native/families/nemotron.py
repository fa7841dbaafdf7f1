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

from formats.native.families.qwen import QWEN_TAGS
from formats.native.format import NativeFormat
from formats.native.grammars.json_envelope import BLOCK, BLOCK_END, EnvelopeGrammar
from formats.native.markers import literal

NEMOTRON = NativeFormat(
    [
        EnvelopeGrammar(
            {BLOCK: [literal("<TOOLCALL>")], BLOCK_END: [literal("</TOOLCALL>")]},
        ),
        QWEN_TAGS,
    ],
    turn_markers=[
        literal(token)
        for token in (
            "<|eot_id|>",
            "<|eom_id|>",
            "<|end_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|im_end|>",
            "<|im_start|>",
            "<SPECIAL_11>",
            "<SPECIAL_12>",
        )
    ],
)
