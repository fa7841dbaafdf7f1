"""ByteDance's Seed-OSS: tags as of Qwen3-Coder in a block of their own, and markers of reasoning.

    <seed:think>The tide first.</seed:think>
    <seed:tool_call>
    <function=get_tide>
    <parameter=harbor>Moss</parameter>
    </function>
    </seed:tool_call>

Values usually begin on the line of their tag; then a newline at their end is part of them.
"""

from formats.native.families.qwen import coder_tags
from formats.native.format import NativeFormat, ReasoningMarkers
from formats.native.markers import literal

SEED = NativeFormat(
    [coder_tags("seed:tool_call", inline=True)],
    reasoning=ReasoningMarkers([literal("<seed:think>")], [literal("</seed:think>")]),
    turn_markers=[literal("<seed:eos>"), literal("<seed:bos>")],
)
