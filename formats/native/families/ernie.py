"""Baidu's Ernie 4.5: Hermes JSON.

<tool_call>
{"name": "get_tide", "arguments": {"harbor": "Moss"}}
</tool_call>
"""

from formats.native.families.qwen import HERMES
from formats.native.format import NativeFormat
from formats.native.markers import literal

ERNIE = NativeFormat(
    [HERMES],
    turn_markers=[literal("<|end_of_sentence|>"), literal("<|begin_of_sentence|>")],
)
