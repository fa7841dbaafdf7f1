"""Liquid AI's LFM2.

A list of Python calls between tokens, or JSON if the prompt asks for it:

    <|tool_call_start|>[get_tide(harbor="Moss", days=2)]<|tool_call_end|>
    <|tool_call_start|>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]<|tool_call_end|>
"""

from formats.native.definition import Document

_CALL_BEGIN, _CALL_END = ["<|tool_call_start|>"], ["<|tool_call_end|>"]

LFM: Document = {
    "grammars": [
        {
            "kind": "envelope",
            "markers": {"BLOCK": _CALL_BEGIN, "BLOCK_END": _CALL_END},
            "special": True,
        },
        {
            "kind": "python_calls",
            "markers": {"CALLS_BEGIN": _CALL_BEGIN, "CALLS_END": _CALL_END},
        },
    ],
    "turn_markers": ["<|im_end|>", "<|im_start|>", "<|startoftext|>", "<|endoftext|>"],
    "detect": {"patterns": ["liquid/*", "liquidai/*", "*lfm2*"]},
    "sample": '<|tool_call_start|>[get_tide(harbor="Moss", days=2)]<|tool_call_end|>',
}
