"""Tencent's Hunyuan A13B and HY3.

A13B:

    <tool_calls>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]</tool_calls>

HY3, whose tags may all have the same suffix, `<tool_call:opensource>`; the schema gives the types:

    <tool_calls><tool_call>get_tide<tool_sep>
    <arg_key>harbor</arg_key><arg_value>Moss</arg_value>
    </tool_call></tool_calls>
"""

from formats.native.families.jamba import TOOL_CALLS
from formats.native.format import NativeFormat
from formats.native.grammars.pair_grammar import pair, read_pair
from formats.native.grammars.tag_grammar import (
    BLOCK,
    BLOCK_END,
    FUNCTION,
    FUNCTION_END,
    PARAMETER,
    PARAMETER_END,
    Function,
    TagGrammar,
)
from formats.native.markers import Atoms, literal


def _tag(name: str) -> Atoms:
    return (*literal(f"<{name}"), "(?::[a-z0-9_]{0,32})?", ">")


_CALL: Atoms = (*_tag("tool_call"), r"\s{0,64}", "[A-Za-z0-9_.-]{0,128}", r"\s{0,64}")
HY3 = TagGrammar(
    {
        BLOCK: [_tag("tool_calls")],
        # Without the separator, the next tag shows where the name ends.
        FUNCTION: [(*_CALL, *_tag("tool_sep")), (*_CALL, "(?=<[a/])")],
        PARAMETER: [pair(_tag("arg_key"), _tag("/arg_key"), _tag("arg_value"))],
        PARAMETER_END: [_tag("/arg_value")],
        FUNCTION_END: [_tag("/tool_call")],
        BLOCK_END: [_tag("/tool_calls")],
    },
    read_function=lambda tag: Function(tag.partition(">")[2].partition("<")[0].strip()),
    read_parameter=read_pair,
    strips_newlines=False,
)
HUNYUAN = NativeFormat(
    [HY3, TOOL_CALLS], turn_markers=[literal("<|eos|>"), literal("<|startoftext|>")]
)
