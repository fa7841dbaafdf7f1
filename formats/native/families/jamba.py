"""AI21's Jamba.

<tool_calls>[
{"name": "get_tide", "arguments": {"harbor": "Moss"}},
{"name": "get_wind", "arguments": {"harbor": "Moss"}}
]</tool_calls>
"""

from formats.native.definition import Document
from formats.native.families.shared import TOOL_CALLS

JAMBA: Document = {
    "grammars": [TOOL_CALLS],
    "turn_markers": ["<|eom|>", "<|bom|>", "<|endoftext|>"],
    "detect": {"patterns": ["ai21/*", "ai21labs/*", "*jamba*"]},
    "sample": "<tool_calls>[\n"
    '{"name": "get_tide", "arguments": {"harbor": "Moss"}}\n]</tool_calls>',
}
