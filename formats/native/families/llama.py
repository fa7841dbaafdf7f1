"""Meta's Llama 3 and 4, and models made from them.

JSON, only at the very start of the answer or after a token; `;` separates several calls:

    {"name": "get_tide", "parameters": {"harbor": "Moss"}}
    <|python_tag|>{"name": "get_tide", "parameters": {"harbor": "Moss"}}; {"name": "get_wind"}

Built-in tools, and custom tags:

    <|python_tag|>brave_search.call(query="tide in Moss")
    <function=get_tide>{"harbor": "Moss"}</function>

A list of Python calls, of Llama 3.2 and 4; the tokens are often missing:

    <|python_start|>[get_tide(harbor="Moss", days=2), get_wind()]<|python_end|>
"""

from formats.native.definition import Document
from formats.native.families.shared import HERMES, QWEN_TAGS

_BEGIN = ["<|python_tag|>", "<|python_start|>"]

LLAMA: Document = {
    "grammars": [
        {
            "kind": "envelope",
            "markers": {"BLOCK": _BEGIN},
            "separator": ";",
            "special": True,
            "bare": True,
        },
        {
            "kind": "python_calls",
            "markers": {"CALLS_BEGIN": _BEGIN, "CALLS_END": ["<|python_end|>"]},
            "name_suffix": ".call",
            "bare": True,
        },
        {
            "kind": "named_object",
            "markers": {"CALL_BEGIN": ["<function={name}>"], "CALL_END": ["</function>"]},
            "special": False,
        },
        # Models made from Llama, whatever their name, may write these too.
        QWEN_TAGS,
        HERMES,
    ],
    "turn_markers": [
        "<|eom_id|>",
        "<|eot_id|>",
        "<|eot|>",
        "<|end_of_text|>",
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|header_start|>",
        "<|header_end|>",
    ],
    "detect": {"patterns": ["meta-llama/*", "*llama-3*", "*llama-4*"]},
    "sample": '<|python_tag|>{"name": "get_tide", "parameters": {"harbor": "Moss"}}',
}
