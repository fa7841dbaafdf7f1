"""MiniMax M1, M2 and M3, where the upstream does not parse the native text.

M1, a JSON object a line:

    <tool_calls>
    {"name": "get_tide", "arguments": {"harbor": "Moss"}}
    </tool_calls>

M2 to M2.7; the schema gives the types of the values:

    <minimax:tool_call>
    <invoke name="get_tide">
    <parameter name="harbor">Moss</parameter>
    </invoke>
    </minimax:tool_call>

M3 writes a token before every tag. Parameters are elements named after their keys; a list has an
element for each item:

    ]<]minimax[>[<tool_call>
    ]<]minimax[>[<invoke name="get_tides">
    ]<]minimax[>[<harbors>]<]minimax[>[<item>Moss]<]minimax[>[</item>]<]minimax[>[</harbors>
    ]<]minimax[>[</invoke>
    ]<]minimax[>[</tool_call>

Values are as the model means them: the chat templates do not escape them, so entities are data.
"""

from formats.native.definition import Document
from formats.native.families.shared import TOOL_CALLS, invoke_tags

MINIMAX: Document = {
    "grammars": [
        invoke_tags("minimax:tool_call"),
        {
            "kind": "tags",
            "markers": {
                # Leaks were seen that lack the token before the first tags.
                "BLOCK": ["]<]minimax[>[<tool_call>", "<tool_call>"],
                "FUNCTION": [']<]minimax[>[<invoke name="{name}">', '<invoke name="{name}">'],
                "PARAMETER": ["]<]minimax[>[<{key}>"],
                "PARAMETER_END": ["]<]minimax[>[</{key}>"],
                "FUNCTION_END": ["]<]minimax[>[</invoke>"],
                "BLOCK_END": ["]<]minimax[>[</tool_call>"],
            },
        },
        TOOL_CALLS,
    ],
    "reasoning": {"begin": ["<mm:think>"], "end": ["</mm:think>"]},
    "turn_markers": ["[e~[", "]~b]", "]~!b["],
    "detect": {"patterns": ["minimax/*", "minimaxai/*", "*minimax*"]},
    "sample": '<minimax:tool_call>\n<invoke name="get_tide">\n<parameter name="harbor">Moss'
    "</parameter>\n</invoke>\n</minimax:tool_call>",
}
