"""Gemma 4, and FunctionGemma. Gemma 1 to 3 have no format of their own.

Gemma 4:

    <|channel>thought
    The harbor is Moss.<channel|>
    <|tool_call>call:get_tide{harbor:<|"|>Moss<|"|>,days:2}<tool_call|>

FunctionGemma, where the schema gives the types of the values:

    <start_function_call>call:get_tide{harbor:<escape>Moss<escape>}<end_function_call>
"""

from formats.native.definition import Document

GEMMA: Document = {
    "grammars": [
        {
            "kind": "objects",
            "markers": {
                "CALL_BEGIN": ["<|tool_call>"],
                # Also the end tag of other families, which the model mixes up.
                "CALL_END": ["<tool_call|>", "</tool_call>"],
                "DELIMITER": ['<|"|>'],
            },
        },
        {
            "kind": "objects",
            "markers": {
                "CALL_BEGIN": ["<start_function_call>"],
                "CALL_END": ["<end_function_call>"],
                "DELIMITER": ["<escape>"],
            },
            "strings": "by_schema",
        },
    ],
    "reasoning": {"begin": ["<|channel>thought"], "end": ["<channel|>"]},
    "turn_markers": [
        "<|turn>model",
        "<turn|>",
        "<end_of_turn>",
        # They announce the tool's output, and end the turn.
        "<|tool_response>",
        "<start_function_response>",
    ],
    "detect": {"patterns": ["*gemma-4*", "*gemma4*", "*functiongemma*"]},
    "sample": "<|channel>thought\nThe harbor is Moss.<channel|>"
    '<|tool_call>call:get_tide{harbor:<|"|>Moss<|"|>,days:2}<tool_call|>',
}
