"""Phi-4 and Phi-4-mini.

An array after a word, which is not a special token:

    functools[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]

An array between special tokens:

    <|tool_call|>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]<|/tool_call|>
"""

from formats.native.definition import Document

PHI: Document = {
    "grammars": [
        {"kind": "envelope", "markers": {"BLOCK": ["functools{array}"]}},
        {
            "kind": "envelope",
            "markers": {
                "BLOCK": ["<|tool_call|>"],
                "BLOCK_END": ["<|/tool_call|>", "</|tool_call|>"],
            },
            "special": True,
        },
    ],
    "turn_markers": [
        "<|end|>",
        "<|endoftext|>",
        "<|im_end|>",
        "<|system|>",
        "<|user|>",
        "<|assistant|>",
    ],
    "detect": {"patterns": ["*phi-4*"]},
    "sample": 'functools[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]',
}
