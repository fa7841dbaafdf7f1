"""Meituan's LongCat: Hermes JSON in tags of its own.

<longcat_tool_call>
{"name": "get_tide", "arguments": {"harbor": "Moss"}}
</longcat_tool_call>
"""

from formats.native.definition import Document

LONGCAT: Document = {
    "grammars": [
        {
            "kind": "envelope",
            "markers": {
                "BLOCK": ["<longcat_tool_call>"],
                "BLOCK_END": ["</longcat_tool_call>"],
            },
        }
    ],
    "turn_markers": ["<longcat_s>", "</longcat_s>"],
    "detect": {"patterns": ["*longcat*"]},
    "sample": '<longcat_tool_call>\n{"name": "get_tide", "arguments": {"harbor": "Moss"}}\n'
    "</longcat_tool_call>",
}
