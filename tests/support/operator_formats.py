"""Two formats as an operator defines them, for models that nobody has heard of."""

from typing import Any

from formats import FORMATS, read_definition
from formats.native.format import NativeFormat

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
    "operator-tokens": read_definition(TOKENS),
    "operator-tags": read_definition(TAGS),
}
"""By name. The laws, the bounds and the fuzzing targets run over them."""

OPERATOR_CALLS = {
    "operator-tokens": "⟦calls⟧⟦call⟧{name}⟦with⟧{json}⟦/call⟧⟦/calls⟧",
    "operator-tags": '<acme:calls><acme:do tool="{name}">{json}</acme:do></acme:calls>',
}


def reading(format_name: str) -> dict[str, Any]:
    """Return the arguments of build_pipeline that select a built-in format or one of these."""
    definition = OPERATOR_FORMATS.get(format_name)
    return {"format_name": format_name, "definition": definition and definition.text}


def native_named(format_name: str) -> NativeFormat | None:
    definition = OPERATOR_FORMATS.get(format_name)
    return definition.native if definition else FORMATS[format_name]
