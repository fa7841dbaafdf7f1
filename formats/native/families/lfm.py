"""Liquid AI's LFM2.

A list of Python calls between tokens, or JSON if the prompt asks for it:

    <|tool_call_start|>[get_tide(harbor="Moss", days=2)]<|tool_call_end|>
    <|tool_call_start|>[{"name": "get_tide", "arguments": {"harbor": "Moss"}}]<|tool_call_end|>
"""

from formats.native.format import NativeFormat
from formats.native.grammars.json_envelope import BLOCK, BLOCK_END, EnvelopeGrammar
from formats.native.grammars.python_calls import CALLS_BEGIN, CALLS_END, PythonCallsGrammar
from formats.native.markers import literal

_BEGIN = [literal("<|tool_call_start|>")]
_END = [literal("<|tool_call_end|>")]

LFM = NativeFormat(
    [
        EnvelopeGrammar({BLOCK: _BEGIN, BLOCK_END: _END}, defers_in_reasoning=False),
        PythonCallsGrammar({CALLS_BEGIN: _BEGIN, CALLS_END: _END}),
    ],
    turn_markers=[
        literal("<|im_end|>"),
        literal("<|im_start|>"),
        literal("<|startoftext|>"),
        literal("<|endoftext|>"),
    ],
)
