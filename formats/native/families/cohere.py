"""Cohere: Command R7B and Command A.

    <|START_THINKING|>The harbor is Moss.<|END_THINKING|>
    <|START_ACTION|>[
        {"tool_call_id": "0", "tool_name": "get_tide", "parameters": {"harbor": "Moss"}}
    ]<|END_ACTION|>

An answer is `<|START_TEXT|>…<|END_TEXT|>`, and in older models `<|START_RESPONSE|>…`.
"""

from formats.native.format import NativeFormat, ReasoningMarkers
from formats.native.grammars.json_envelope import BLOCK, BLOCK_END, EnvelopeGrammar
from formats.native.markers import literal

COHERE = NativeFormat(
    [
        EnvelopeGrammar(
            {BLOCK: [literal("<|START_ACTION|>")], BLOCK_END: [literal("<|END_ACTION|>")]},
            defers_in_reasoning=False,
        )
    ],
    reasoning=ReasoningMarkers([literal("<|START_THINKING|>")], [literal("<|END_THINKING|>")]),
    turn_markers=[
        literal(f"<|{token}|>")
        for token in (
            "START_TEXT",
            "END_TEXT",
            "START_RESPONSE",
            "END_RESPONSE",
            "START_OF_TURN_TOKEN",
            "END_OF_TURN_TOKEN",
            "CHATBOT_TOKEN",
        )
    ],
)
