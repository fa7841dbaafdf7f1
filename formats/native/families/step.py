"""StepFun's Step-3 and Step-3.5.

Step-3, tags between tokens:

    <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>
    <steptml:invoke name="get_tide"><steptml:parameter name="harbor">Moss</steptml:parameter>
    </steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>

Step-3.5, as Qwen3-Coder:

    <tool_call>
    <function=get_tide>
    <parameter=harbor>
    Moss
    </parameter>
    </function>
    </tool_call>
"""

from formats.native.definition import Document
from formats.native.families.shared import QWEN_TAGS

STEP: Document = {
    "grammars": [
        {
            "kind": "tags",
            "markers": {
                "BLOCK": [
                    "<｜tool_calls_begin｜>",
                    "<｜tool_call_begin｜>function<｜tool_sep｜>",
                ],
                "FUNCTION": ['<steptml:invoke name="{name}">'],
                "PARAMETER": ['<steptml:parameter name="{key}" string="{is_string}">'],
                "PARAMETER_END": ["</steptml:parameter>"],
                "FUNCTION_END": ["</steptml:invoke>"],
                "BLOCK_END": ["<｜tool_call_end｜>", "<｜tool_calls_end｜>"],
            },
        },
        QWEN_TAGS,
    ],
    "turn_markers": ["<|EOT|>", "<|BOT|>", "<|im_end|>", "<|im_start|>"],
    "detect": {"patterns": ["stepfun/*", "stepfun-ai/*", "*step-3*", "*step3*"]},
    "sample": "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="get_tide"><steptml:parameter name="harbor">Moss</steptml:parameter>'
    "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
}
