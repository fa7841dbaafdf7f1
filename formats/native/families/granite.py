"""IBM's Granite 3, 4 and 20B function calling.

An array after a token that nothing closes; Granite 3.1 writes `<tool_call>` instead:

    <|tool_call|>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]

Hermes JSON, of Granite 4; the arguments may be encoded in a string:

    <tool_call>
    {"name": "get_tide", "arguments": {"harbor": "Moss"}}
    </tool_call>

A token for each call, of Granite 20B function calling:

    <function_call> {"name": "get_tide", "arguments": {"harbor": "Moss"}}
"""

from formats.native.families.qwen import HERMES
from formats.native.format import NativeFormat
from formats.native.grammars.json_envelope import BLOCK, EnvelopeGrammar
from formats.native.markers import literal

GRANITE = NativeFormat(
    [
        EnvelopeGrammar({BLOCK: [literal("<|tool_call|>")]}, defers_in_reasoning=False),
        EnvelopeGrammar({BLOCK: [literal("<function_call>")]}),
        HERMES,
    ],
    turn_markers=[
        literal(f"<|{token}|>")
        for token in ("end_of_text", "endoftext", "start_of_role", "end_of_role")
    ],
)
