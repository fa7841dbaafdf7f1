"""AI21's Jamba.

<tool_calls>[
{"name": "get_tide", "arguments": {"harbor": "Moss"}},
{"name": "get_wind", "arguments": {"harbor": "Moss"}}
]</tool_calls>
"""

from formats.native.format import NativeFormat
from formats.native.grammars.json_envelope import BLOCK, BLOCK_END, EnvelopeGrammar
from formats.native.markers import literal

TOOL_CALLS = EnvelopeGrammar(
    {BLOCK: [literal("<tool_calls>")], BLOCK_END: [literal("</tool_calls>")]}
)
"""Also of Hunyuan A13B, and of MiniMax M1, which writes an object a line instead of an array."""

JAMBA = NativeFormat(
    [TOOL_CALLS],
    turn_markers=[literal("<|eom|>"), literal("<|bom|>"), literal("<|endoftext|>")],
)
