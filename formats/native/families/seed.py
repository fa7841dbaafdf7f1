"""ByteDance's Seed-OSS: tags as of Qwen3-Coder in a block of their own, and markers of reasoning.

    <seed:think>The tide first.</seed:think>
    <seed:tool_call>
    <function=get_tide>
    <parameter=harbor>Moss</parameter>
    </function>
    </seed:tool_call>

Values usually begin on the line of their tag; then a newline at their end is part of them.
"""

from formats.native.definition import Document
from formats.native.families.shared import coder_tags

SEED: Document = {
    "grammars": [coder_tags("seed:tool_call", newlines="beside_lines")],
    "reasoning": {"begin": ["<seed:think>"], "end": ["</seed:think>"]},
    "turn_markers": ["<seed:eos>", "<seed:bos>"],
    "detect": {"patterns": ["*seed-oss*"]},
    "sample": "<seed:think>The tide first.</seed:think>\n<seed:tool_call>\n<function=get_tide>\n"
    "<parameter=harbor>Moss</parameter>\n</function>\n</seed:tool_call>",
}
