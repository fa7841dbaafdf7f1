"""DeepSeek V3, R1, V3.1, V3.2 and V4, where the upstream does not parse the native text.

V3 and R1, with the name after the separator and the arguments in a fence:

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_tide
    ```json
    {"harbor": "Moss"}
    ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>

V3.1:

    <｜tool▁calls▁begin｜>
    <｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>{"harbor": "Moss"}<｜tool▁call▁end｜>
    <｜tool▁calls▁end｜>

V3.2 (DSML); V4 names the block `tool_calls`, and relays write the bars in several ways:

    <｜DSML｜function_calls>
    <｜DSML｜invoke name="get_tide">
    <｜DSML｜parameter name="harbor" string="true">Moss</｜DSML｜parameter>
    </｜DSML｜invoke>
    </｜DSML｜function_calls>

An output that the model invents after its call:

    <｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>14:32<｜tool▁output▁end｜><｜tool▁outputs▁end｜>
"""

from formats.native.definition import Document
from formats.native.families.shared import ANTHROPIC_TAGS

DEEPSEEK: Document = {
    "grammars": [
        {
            "kind": "tokens",
            "markers": {
                "SECTION_BEGIN": ["<｜tool{space}calls{space}begin｜>", "<｜tool{space}calls｜>"],
                "CALL_BEGIN": ["<｜tool{space}call{space}begin｜>"],
                "ARGUMENTS_BEGIN": ["<｜tool{space}sep｜>"],
                "CALL_END": ["<｜tool{space}call{space}end｜>"],
                "SECTION_END": ["<｜tool{space}calls{space}end｜>"],
            },
            "header": "type_or_name",
        },
        {
            "kind": "tags",
            "markers": {
                "BLOCK": ["<{bars}DSML{bars}{word}>"],
                "FUNCTION": ['<{bars}DSML{bars}invoke name="{name}">'],
                "PARAMETER": ['<{bars}DSML{bars}parameter name="{key}" string="{is_string}">'],
                "PARAMETER_END": ["</{bars}DSML{bars}parameter>"],
                "FUNCTION_END": ["</{bars}DSML{bars}invoke>"],
                "BLOCK_END": ["</{bars}DSML{bars}{word}>"],
            },
        },
        ANTHROPIC_TAGS,
        {
            "kind": "played_output",
            "markers": {
                "OUTPUT_BEGIN": [
                    "<｜tool{space}outputs{space}begin｜>",
                    "<｜tool{space}output{space}begin｜>",
                ],
                "OUTPUT_END": [
                    "<｜tool{space}outputs{space}end｜>",
                    "<｜tool{space}output{space}end｜>",
                ],
            },
        },
    ],
    "turn_markers": [
        "<｜begin{space}of{space}sentence｜>",
        "<｜end{space}of{space}sentence｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
    ],
    "detect": {"patterns": ["deepseek/*", "*deepseek*"]},
    "sample": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_tide<｜tool▁sep｜>"
    '{"harbor": "Moss"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
}
