"""Cohere: Command R7B and Command A.

    <|START_THINKING|>The harbor is Moss.<|END_THINKING|>
    <|START_ACTION|>[
        {"tool_call_id": "0", "tool_name": "get_tide", "parameters": {"harbor": "Moss"}}
    ]<|END_ACTION|>

An answer is `<|START_TEXT|>…<|END_TEXT|>`, and in older models `<|START_RESPONSE|>…`.
"""

from formats.native.definition import Document

COHERE: Document = {
    "grammars": [
        {
            "kind": "envelope",
            "markers": {"BLOCK": ["<|START_ACTION|>"], "BLOCK_END": ["<|END_ACTION|>"]},
            "special": True,
        }
    ],
    "reasoning": {"begin": ["<|START_THINKING|>"], "end": ["<|END_THINKING|>"]},
    "turn_markers": [
        "<|START_TEXT|>",
        "<|END_TEXT|>",
        "<|START_RESPONSE|>",
        "<|END_RESPONSE|>",
        "<|START_OF_TURN_TOKEN|>",
        "<|END_OF_TURN_TOKEN|>",
        "<|CHATBOT_TOKEN|>",
    ],
    "detect": {"patterns": ["cohere/*", "coherelabs/*", "*command-a*", "*command-r*"]},
    "sample": "<|START_THINKING|>The harbor is Moss.<|END_THINKING|><|START_ACTION|>["
    '{"tool_call_id": "0", "tool_name": "get_tide", "parameters": {"harbor": "Moss"}}'
    "]<|END_ACTION|>",
}
