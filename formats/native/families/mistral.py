"""Mistral, Mixtral, Devstral, Magistral and their relatives.

An array, of tokenizers before v11; Mistral's own fixtures close it with `[/TOOL_CALLS]`:

    [TOOL_CALLS] [{"name": "get_tide", "arguments": {"harbor": "Moss"}}]

A token for each call, from v11 on; models leave out `[CALL_ID]` and `[ARGS]`:

    [TOOL_CALLS]get_tide[CALL_ID]a1B2c3D4e[ARGS]{"harbor": "Moss"}

Reasoning, from v13 on:

    [THINK]The harbor is Moss.[/THINK]
"""

from formats.native.definition import Document

MISTRAL: Document = {
    "grammars": [
        {
            "kind": "envelope",
            "markers": {"BLOCK": ["[TOOL_CALLS]"], "BLOCK_END": ["[/TOOL_CALLS]"]},
            "special": True,
        },
        {
            "kind": "named_object",
            "markers": {
                "CALL_BEGIN": [
                    "[TOOL_CALLS]{name}[ARGS]",
                    "[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]",
                    "[TOOL_CALLS]{name}[CALL_ID]{id}",
                    "[TOOL_CALLS]{name}",
                ],
                "CALL_END": ["[/TOOL_CALLS]", "</s>"],
            },
        },
    ],
    "reasoning": {"begin": ["[THINK]"], "end": ["[/THINK]"]},
    # `</s>` also closes a tag of HTML.
    "final_markers": ["</s>"],
    "detect": {"patterns": ["mistral/*", "mistralai/*", "*mistral*", "*devstral*", "*magistral*"]},
    "sample": '[TOOL_CALLS]get_tide[CALL_ID]a1B2c3D4e[ARGS]{"harbor": "Moss"}',
}
