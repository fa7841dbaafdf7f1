"""Grammar documents that several families include in their definitions."""

from formats.native.definition import Document

HERMES: Document = {
    "kind": "envelope",
    "markers": {"BLOCK": ["<tool_call>"], "BLOCK_END": ["</tool_call>"]},
}
HERMES_SAMPLE = '<tool_call>\n{"name": "get_tide", "arguments": {"harbor": "Moss"}}\n</tool_call>'

TOOL_CALLS: Document = {
    "kind": "envelope",
    "markers": {"BLOCK": ["<tool_calls>"], "BLOCK_END": ["</tool_calls>"]},
}
"""Of Jamba and Hunyuan A13B, and of MiniMax M1, which writes an object a line, not an array."""


def coder_tags(block: str, *, newlines: str = "removed") -> Document:
    """Return the tags of Qwen3-Coder with another name for their block."""
    return {
        "kind": "tags",
        "markers": {
            "BLOCK": [f"<{block}>"],
            "FUNCTION": ["<function={name}>"],
            "PARAMETER": ["<parameter={key}>"],
            "PARAMETER_END": ["</parameter>"],
            "FUNCTION_END": ["</function>"],
            "BLOCK_END": [f"</{block}>"],
        },
        "newlines": newlines,
    }


QWEN_TAGS = coder_tags("tool_call")


def invoke_tags(block: str) -> Document:
    """Return tags that name a tool and its parameters in attributes, in a block."""
    return {
        "kind": "tags",
        "markers": {
            "BLOCK": [f"<{block}>"],
            "FUNCTION": ['<invoke name="{name}">'],
            "PARAMETER": ['<parameter name="{key}" string="{is_string}">'],
            "PARAMETER_END": ["</parameter>"],
            "FUNCTION_END": ["</invoke>"],
            "BLOCK_END": [f"</{block}>"],
        },
    }


# Anthropic's own XML, which other models write, too.
ANTHROPIC_TAGS = invoke_tags("function_calls")
