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

from formats.native.families.qwen import QWEN_TAGS
from formats.native.format import NativeFormat
from formats.native.grammars.attribute_tags import (
    function_tags,
    parameter_tags,
    read_function,
    read_parameter,
)
from formats.native.grammars.tag_grammar import BLOCK, BLOCK_END, TagGrammar
from formats.native.markers import literal

_OPEN = literal("<steptml:")
_CLOSE = literal("</steptml:")

STEP = NativeFormat(
    [
        TagGrammar(
            {
                BLOCK: [
                    literal("<｜tool_calls_begin｜>"),
                    literal("<｜tool_call_begin｜>function<｜tool_sep｜>"),
                ],
                **function_tags(_OPEN, _CLOSE),
                **parameter_tags(_OPEN, _CLOSE),
                BLOCK_END: [literal("<｜tool_call_end｜>"), literal("<｜tool_calls_end｜>")],
            },
            read_function,
            read_parameter,
            strips_newlines=False,
        ),
        QWEN_TAGS,
    ],
    turn_markers=[literal(token) for token in ("<|EOT|>", "<|BOT|>", "<|im_end|>", "<|im_start|>")],
)
