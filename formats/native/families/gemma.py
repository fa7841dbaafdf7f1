"""Gemma 4, and FunctionGemma. Gemma 1 to 3 have no format of their own.

Gemma 4:

    <|channel>thought
    The harbor is Moss.<channel|>
    <|tool_call>call:get_tide{harbor:<|"|>Moss<|"|>,days:2}<tool_call|>

FunctionGemma, where the schema gives the types of the values:

    <start_function_call>call:get_tide{harbor:<escape>Moss<escape>}<end_function_call>
"""

from formats.native.format import NativeFormat, ReasoningMarkers
from formats.native.grammars.object_grammar import ObjectGrammar
from formats.native.markers import literal

GEMMA = NativeFormat(
    [
        ObjectGrammar(
            begin=[literal("<|tool_call>")],
            # Also the end tag of other families, which the model mixes up.
            end=[literal("<tool_call|>"), literal("</tool_call>")],
            delimiter=literal('<|"|>'),
        ),
        ObjectGrammar(
            begin=[literal("<start_function_call>")],
            end=[literal("<end_function_call>")],
            delimiter=literal("<escape>"),
            converts_strings=True,
        ),
    ],
    reasoning=ReasoningMarkers([literal("<|channel>thought")], [literal("<channel|>")]),
    turn_markers=[
        literal("<|turn>model"),
        literal("<turn|>"),
        literal("<end_of_turn>"),
        # They announce the tool's output, and end the turn.
        literal("<|tool_response>"),
        literal("<start_function_response>"),
    ],
)
