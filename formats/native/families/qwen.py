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

from formats.native.format import NativeFormat
from formats.native.grammar import Name, Unnamed
from formats.native.grammars.json_envelope import EnvelopeGrammar
from formats.native.grammars.tag_grammar import (
    BLOCK,
    BLOCK_END,
    CUT_FUNCTION,
    FUNCTION,
    FUNCTION_END,
    PARAMETER,
    PARAMETER_END,
    Function,
    Parameter,
    TagGrammar,
)
from formats.native.grammars.token_grammar import (
    ARGUMENTS_BEGIN,
    CALL_BEGIN,
    SECTION_END,
    TokenGrammar,
    Tokens,
)
from formats.native.markers import literal
from formats.toolbox import Toolbox

_NAME = (r"[^<>\n]{1,128}", ">")


def coder_tags(block: str, *, inline: bool = False) -> TagGrammar:
    """Return the grammar of Qwen3-Coder with another name for its block."""
    return TagGrammar(
        {
            BLOCK: [literal(f"<{block}>")],
            FUNCTION: [(*literal("<function="), r"[^<>\n]{0,128}", ">")],
            CUT_FUNCTION: [(*literal("<function="), r"[^<>\n]{0,128}+", r"(?=[^>])")],
            PARAMETER: [literal("<parameter=") + _NAME],
            PARAMETER_END: [literal("</parameter>")],
            FUNCTION_END: [literal("</function>")],
            BLOCK_END: [literal(f"</{block}>")],
        },
        read_function=lambda tag: Function(tag[len("<function=") : -1].strip()),
        read_parameter=lambda tag: Parameter(tag[len("<parameter=") : -1].strip()),
        strips_newlines=True,
        inline=inline,
    )


_COLON = ("[ ]?", "[:：]")


def _read_flower_header(header: str, toolbox: Toolbox) -> Name:
    return toolbox.resolve(header) if header and len(header.split()) == 1 else Unnamed.BAD


HERMES = EnvelopeGrammar({BLOCK: [literal("<tool_call>")], BLOCK_END: [literal("</tool_call>")]})
QWEN_TAGS = coder_tags("tool_call")
QWEN = NativeFormat(
    [
        QWEN_TAGS,
        HERMES,
        TokenGrammar(
            Tokens(
                {
                    CALL_BEGIN: [literal("✿FUNCTION✿") + _COLON],
                    ARGUMENTS_BEGIN: [literal("✿ARGS✿") + _COLON],
                    SECTION_END: [literal("✿RESULT✿"), literal("✿RETURN✿")],
                },
                _read_flower_header,
                repeats_name=True,
                tail=(":", "："),
            ),
            removes_stray_tokens=False,
            defers_in_reasoning=True,
        ),
    ],
    turn_markers=[literal("<|im_end|>"), literal("<|im_start|>"), literal("<|endoftext|>")],
)
