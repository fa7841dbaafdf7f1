"""Tags that name a tool and its parameters in attributes, as a table for `tag_grammar`.

    <invoke name="get_tide"><parameter name="harbor">Moss</parameter></invoke>

Models reorder attributes, add others, and write values in either kind of quotes or in none.
"""

import re
from collections.abc import Mapping, Sequence

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
from formats.native.markers import Atoms, literal

_ATTRIBUTES: Atoms = ("[ ]", r"[^<>\n]{1,256}", ">")
_ATTRIBUTE = re.compile(r"""\b(\w++)\s*+=\s*+(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+?)(?=/?>|\s))""")


def function_tags(begin: Atoms, end: Atoms) -> Mapping[str, Sequence[Atoms]]:
    """Return the tags of a function; `begin` and `end` stand before the names of the tags."""
    invoke = (*begin, *literal("invoke"))
    return {
        FUNCTION: [(*invoke, *_ATTRIBUTES), (*invoke, "[ ]?", ">")],
        CUT_FUNCTION: [(*invoke, "[ ]", r"[^<>\n]{0,256}+", "(?=[^>])")],
        FUNCTION_END: [(*end, *literal("invoke"), "[ ]?", ">")],
    }


def parameter_tags(begin: Atoms, end: Atoms) -> Mapping[str, Sequence[Atoms]]:
    return {
        PARAMETER: [(*begin, *literal("parameter"), *_ATTRIBUTES)],
        PARAMETER_END: [(*end, *literal("parameter"), "[ ]?", ">")],
    }


def read_function(tag: str) -> Function:
    return Function(_attributes(tag).get("name", "").strip(), is_closed=tag.endswith("/>"))


def read_parameter(tag: str) -> Parameter:
    attributes = _attributes(tag)
    string = attributes.get("string")
    is_string = None if string is None else string == "true"
    return Parameter(attributes.get("name", ""), is_string=is_string)


def _attributes(tag: str) -> dict[str, str]:
    return {name: a or b or c for name, a, b, c in _ATTRIBUTE.findall(tag)}


def invoke_grammar(block: str) -> TagGrammar:
    """Return the grammar of these tags, without a prefix, in a block."""
    begin, end = literal("<"), literal("</")
    return TagGrammar(
        {
            BLOCK: [literal(f"<{block}>")],
            **function_tags(begin, end),
            **parameter_tags(begin, end),
            BLOCK_END: [literal(f"</{block}>")],
        },
        read_function,
        read_parameter,
        strips_newlines=False,
    )


# Anthropic's own XML, which other models write, too.
ANTHROPIC_TAGS = invoke_grammar("function_calls")
