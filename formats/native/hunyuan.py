"""Tencent's Hunyuan A13B.

<tool_calls>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]</tool_calls>
"""

from formats.native.format import NativeFormat
from formats.native.jamba import TOOL_CALLS
from formats.native.markers import literal

HUNYUAN = NativeFormat([TOOL_CALLS], turn_markers=[literal("<|eos|>"), literal("<|startoftext|>")])
