"""Kimi K2 and its successors up to K2.7, and Kimi K3.

K2:

    <|tool_calls_section_begin|>
    <|tool_call_begin|>functions.get_tide:0
    <|tool_call_argument_begin|>{"harbor": "Moss"}<|tool_call_end|>
    <|tool_calls_section_end|>

The header is `functions.NAME:N`, where N counts the calls of the whole conversation. Models imitate
the history, so the header also comes without its prefix, without its counter, as a bare counter, as
the id of another vendor's call, or without punctuation.

K3, where only the tokens between bars are special, and the type of a value is in its tag:

    <|open|>think<|sep|>The harbor is Moss.<|close|>think<|sep|>
    <|open|>response<|sep|>Let me look.<|close|>response<|sep|>
    <|open|>tools<|sep|><|open|>call tool="get_tide" index="1"<|sep|>
    <|open|>argument key="harbor" type="string"<|sep|>Moss<|close|>argument<|sep|>
    <|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>
"""

from formats.native.definition import Document
from formats.native.families.shared import ANTHROPIC_TAGS

KIMI: Document = {
    "grammars": [
        {
            "kind": "tokens",
            "markers": {
                # The technical report has the singular; models mix both.
                "SECTION_BEGIN": ["<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"],
                "CALL_BEGIN": ["<|tool_call_begin|>"],
                "ARGUMENTS_BEGIN": [
                    "<|tool_call_argument_begin|>",
                    "<|tool_arguments_begin|>",  # the report's spelling
                ],
                "CALL_END": [
                    "<|tool_call_end|>",
                    "<|tool_call_argument_end|>",  # in lists of sanitizers, never seen
                ],
                "SECTION_END": ["<|tool_calls_section_end|>", "<|tool_call_section_end|>"],
            },
            "header": "counted_name",
        },
        # K3. Detokenisers add spaces beside special tokens.
        {
            "kind": "tags",
            "markers": {
                "BLOCK": ["<|open|>{blank}tools{blank}<|sep|>"],
                "FUNCTION": ['<|open|>{blank}call tool="{name}"{blank}<|sep|>'],
                "PARAMETER": ['<|open|>{blank}argument key="{key}" type="{type}"{blank}<|sep|>'],
                "PARAMETER_END": ["<|close|>{blank}argument{blank}<|sep|>"],
                "FUNCTION_END": ["<|close|>{blank}call{blank}<|sep|>"],
                "BLOCK_END": ["<|close|>{blank}tools{blank}<|sep|>"],
            },
            "entities": True,
            "special": True,
        },
        ANTHROPIC_TAGS,
    ],
    "reasoning": {
        "begin": ["<|open|>{blank}think{blank}<|sep|>"],
        "end": ["<|close|>{blank}think{blank}<|sep|>"],
    },
    "turn_markers": [
        "<|im_end|>",
        "<|im_assistant|>",
        "<|im_middle|>",
        "<|im_system|>",
        "<|im_user|>",
        "<|open|>{blank}response{blank}<|sep|>",
        "<|close|>{blank}response{blank}<|sep|>",
        "<|open|>{blank}message{attributes}{blank}<|sep|>",
        "<|close|>{blank}message{blank}<|sep|>",
        "<|end_of_msg|>",
    ],
    "final_markers": ["[EOS]", "[EOT]"],
    "detect": {"patterns": ["moonshotai/*", "moonshot/*", "*kimi*", "*/k2*"]},
    "sample": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_tide:0"
    '<|tool_call_argument_begin|>{"harbor": "Moss"}<|tool_call_end|><|tool_calls_section_end|>',
}
