"""Two formats as an operator defines them, for models that nobody has heard of."""

from typing import Any

from formats import read_definition

TOKENS: dict[str, Any] = {
    "grammars": [
        {
            "kind": "tokens",
            "markers": {
                "SECTION_BEGIN": ["⟦calls⟧"],
                "CALL_BEGIN": ["⟦call⟧", "⟦tool{space}call⟧"],
                "ARGUMENTS_BEGIN": ["⟦with⟧"],
                "CALL_END": ["⟦/call⟧"],
                "SECTION_END": ["⟦/calls⟧"],
            },
            "header": "name",
        }
    ],
    "reasoning": {"begin": ["⟦muse⟧"], "end": ["⟦/muse⟧"]},
    "turn_markers": ["⟦over⟧"],
    "final_markers": ["⟦eot⟧"],
    "detect": {"patterns": ["acme/*", "*muse-1*"]},
    "sample": '⟦calls⟧⟦call⟧get_tide⟦with⟧{"harbor": "Moss"}⟦/call⟧⟦/calls⟧',
}
TAGS: dict[str, Any] = {
    "grammars": [
        {
            "kind": "tags",
            "markers": {
                "BLOCK": ["<acme:calls>"],
                "FUNCTION": ['<acme:do tool="{name}">', "<acme:run {name}>"],
                "PARAMETER": ['<acme:with key="{key}" type="{type}">'],
                "PARAMETER_END": ["</acme:with>"],
                "FUNCTION_END": ["</acme:do>"],
                "BLOCK_END": ["</acme:calls>"],
            },
            "newlines": "removed",
        }
    ],
    "turn_markers": ["<acme:over{attributes}>"],
    "split_thinking": "marked",
    "detect": {"patterns": ["acme-tags"]},
    "sample": '<acme:calls>\n<acme:do tool="get_tide">\n<acme:with key="harbor">\nMoss\n'
    "</acme:with>\n</acme:do>\n</acme:calls>",
}
OPERATOR_FORMATS = {
    name: read_definition(document) for name, document in (("tokens", TOKENS), ("tags", TAGS))
}
"""By name. Law 6, the other laws and the fuzzing targets run over them."""

OPERATOR_CALLS = {
    "tokens": "⟦calls⟧⟦call⟧{name}⟦with⟧{json}⟦/call⟧⟦/calls⟧",
    "tags": '<acme:calls><acme:do tool="{name}">{json}</acme:do></acme:calls>',
}
