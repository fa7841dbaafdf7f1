"""Baidu's Ernie 4.5: Hermes JSON.

<tool_call>
{"name": "get_tide", "arguments": {"harbor": "Moss"}}
</tool_call>
"""

from formats.native.definition import Document
from formats.native.families.shared import HERMES, HERMES_SAMPLE

ERNIE: Document = {
    "grammars": [HERMES],
    "turn_markers": ["<|end_of_sentence|>", "<|begin_of_sentence|>"],
    "detect": {"patterns": ["*ernie*"]},
    "sample": HERMES_SAMPLE,
}
