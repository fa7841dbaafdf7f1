"""Qwen 2.5, Qwen 3, QwQ, Qwen3-Coder, and the Qwen-Agent prompts.

Hermes JSON, of Qwen 2.5 and Qwen 3:

    <tool_call>
    {"name": "get_tide", "arguments": {"harbor": "Moss"}}
    </tool_call>

Tags, of Qwen3-Coder and Qwen 3.5 on; the schema gives the types of the values:

    <tool_call>
    <function=get_tide>
    <parameter=harbor>
    Moss
    </parameter>
    </function>
    </tool_call>

Flowers, of the older Qwen-Agent:

    ✿FUNCTION✿: get_tide
    ✿ARGS✿: {"harbor": "Moss"}
    ✿RESULT✿
"""

from formats.native.definition import Document
from formats.native.families.shared import HERMES, HERMES_SAMPLE, QWEN_TAGS

QWEN: Document = {
    "grammars": [
        QWEN_TAGS,
        HERMES,
        {
            "kind": "tokens",
            "markers": {
                "CALL_BEGIN": ["✿FUNCTION✿{colon}"],
                "ARGUMENTS_BEGIN": ["✿ARGS✿{colon}"],
                "SECTION_END": ["✿RESULT✿", "✿RETURN✿"],
            },
            "header": "name",
            "repeats_name": True,
            "tail": [":", "："],
            "special": False,
        },
    ],
    "turn_markers": ["<|im_end|>", "<|im_start|>", "<|endoftext|>"],
    "detect": {"patterns": ["qwen/*", "*qwen*", "*mimo*", "*hermes*"]},
    "sample": HERMES_SAMPLE,
}
