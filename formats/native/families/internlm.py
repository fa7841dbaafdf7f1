"""InternLM 2 and 3, and Intern-S1.

<|action_start|><|plugin|>
{"name": "get_tide", "parameters": {"harbor": "Moss"}}<|action_end|>
"""

from formats.native.definition import Document

INTERNLM: Document = {
    "grammars": [
        {
            "kind": "envelope",
            "markers": {
                "BLOCK": ["<|action_start|>{blank}<|plugin|>"],
                "BLOCK_END": ["<|action_end|>"],
            },
            "special": True,
        }
    ],
    "turn_markers": ["<|im_end|>", "<|im_start|>"],
    "detect": {"patterns": ["internlm/*", "*internlm*", "*intern-s1*"]},
    "sample": "<|action_start|><|plugin|>\n"
    '{"name": "get_tide", "parameters": {"harbor": "Moss"}}<|action_end|>',
}
