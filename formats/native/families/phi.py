"""Phi-4 and Phi-4-mini.

An array after a word, which is not a special token:

    functools[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]

An array between special tokens:

    <|tool_call|>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]<|/tool_call|>
"""

from formats.native.format import NativeFormat
from formats.native.grammars.json_envelope import BLOCK, BLOCK_END, EnvelopeGrammar
from formats.native.markers import literal

AFTER_WORD = EnvelopeGrammar({BLOCK: [(*literal("functools"), r"\s{0,8}+", r"(?=\[)")]})
PHI = NativeFormat(
    [
        AFTER_WORD,
        EnvelopeGrammar(
            {
                BLOCK: [literal("<|tool_call|>")],
                BLOCK_END: [literal("<|/tool_call|>"), literal("</|tool_call|>")],
            },
            defers_in_reasoning=False,
        ),
    ],
    turn_markers=[
        literal(f"<|{token}|>")
        for token in ("end", "endoftext", "im_end", "system", "user", "assistant")
    ],
)
