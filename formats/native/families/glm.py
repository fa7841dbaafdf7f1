"""GLM-4.5 to GLM-5, where the upstream does not parse the native text.

GLM-4.5 and 4.6; the schema gives the types of the values:

    <tool_call>get_tide
    <arg_key>harbor</arg_key>
    <arg_value>Moss</arg_value>
    </tool_call>

GLM-4.7 and 5, and a call without arguments:

    <tool_call>get_tide<arg_key>harbor</arg_key><arg_value>Moss</arg_value></tool_call>
    <tool_call>list_harbors</tool_call>
"""

from formats.native.definition import Document

GLM: Document = {
    "grammars": [
        {
            "kind": "pairs",
            "markers": {
                "BLOCK": ["<tool_call>"],
                "KEY": ["<arg_key>"],
                "KEY_END": ["</arg_key>"],
                "VALUE": ["<arg_value>"],
                "VALUE_END": ["</arg_value>"],
                "BLOCK_END": ["</tool_call>"],
            },
        }
    ],
    "turn_markers": ["<|user|>", "<|assistant|>", "<|observation|>", "<|system|>", "<|endoftext|>"],
    "detect": {"patterns": ["zai-org/*", "z-ai/*", "zai/*", "*glm-*"]},
    "sample": "<tool_call>get_tide\n<arg_key>harbor</arg_key>\n<arg_value>Moss</arg_value>\n"
    "</tool_call>",
}
