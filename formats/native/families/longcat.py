"""Meituan's LongCat: Hermes JSON in tags of its own.

<longcat_tool_call>
{"name": "get_tide", "arguments": {"harbor": "Moss"}}
</longcat_tool_call>
"""

from formats.native.format import NativeFormat
from formats.native.grammars.json_envelope import BLOCK, BLOCK_END, EnvelopeGrammar
from formats.native.markers import literal

LONGCAT = NativeFormat(
    [
        EnvelopeGrammar(
            {
                BLOCK: [literal("<longcat_tool_call>")],
                BLOCK_END: [literal("</longcat_tool_call>")],
            }
        )
    ],
    turn_markers=[literal("<longcat_s>"), literal("</longcat_s>")],
)
