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

from formats.native.definition import Document
from formats.native.families.shared import HERMES

GRANITE: Document = {
    "grammars": [
        {"kind": "envelope", "markers": {"BLOCK": ["<|tool_call|>"]}, "special": True},
        {"kind": "envelope", "markers": {"BLOCK": ["<function_call>"]}},
        HERMES,
    ],
    "turn_markers": [
        "<|end_of_text|>",
        "<|endoftext|>",
        "<|start_of_role|>",
        "<|end_of_role|>",
    ],
    "detect": {"patterns": ["ibm-granite/*", "*granite*"]},
    "sample": '<|tool_call|>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]',
}
