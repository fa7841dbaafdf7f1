"""InternLM 2 and 3, and Intern-S1.

<|action_start|><|plugin|>
{"name": "get_tide", "parameters": {"harbor": "Moss"}}<|action_end|>
"""

from formats.native.format import NativeFormat
from formats.native.grammars.json_envelope import BLOCK, BLOCK_END, EnvelopeGrammar
from formats.native.markers import literal

INTERNLM = NativeFormat(
    [
        EnvelopeGrammar(
            {
                BLOCK: [
                    (*literal("<|action_start|>"), r"\s{0,16}+", *literal("<|plugin|>")),
                ],
                BLOCK_END: [literal("<|action_end|>")],
            },
            defers_in_reasoning=False,
        )
    ],
    turn_markers=[literal("<|im_end|>"), literal("<|im_start|>")],
)
