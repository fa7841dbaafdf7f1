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

from formats.native.format import NativeFormat
from formats.native.grammars.pair_grammar import PairGrammar
from formats.native.markers import literal

GLM = NativeFormat(
    [
        PairGrammar(
            block=literal("<tool_call>"),
            key=literal("<arg_key>"),
            key_end=literal("</arg_key>"),
            value=literal("<arg_value>"),
            value_end=literal("</arg_value>"),
            block_end=literal("</tool_call>"),
        )
    ],
    turn_markers=[
        literal(f"<|{token}|>")
        for token in ("user", "assistant", "observation", "system", "endoftext")
    ],
)
