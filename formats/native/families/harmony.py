"""Harmony, the format of gpt-oss.

    <|channel|>analysis<|message|>The harbor is Moss.<|end|>
    <|start|>assistant<|channel|>commentary to=functions.get_tide <|constrain|>json
    <|message|>{"harbor": "Moss"}<|call|>
    <|start|>assistant<|channel|>final<|message|>High water is at 14:32.<|return|>

The recipient may also follow the role, and the channel of a call does not matter. `analysis` is
reasoning; `final`, and `commentary` without a recipient, are text. The first message follows the
prompt's `<|start|>assistant`, so it begins with its channel or its recipient.
"""

from formats.native.definition import Document

HARMONY: Document = {
    "grammars": [
        {
            "kind": "messages",
            "markers": {
                "MESSAGE_START": ["<|start|>"],
                "CHANNEL": ["<|channel|>"],
                "CONSTRAIN": ["<|constrain|>"],
                "BODY": ["<|message|>"],
                "MESSAGE_END": ["<|end|>", "<|call|>", "<|return|>"],
            },
            "reasoning_channels": ["analysis"],
        }
    ],
    "detect": {"patterns": ["*gpt-oss*", "*gptoss*", "*harmony*"]},
    "sample": "<|channel|>analysis<|message|>The harbor is Moss.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.get_tide <|constrain|>json"
    '<|message|>{"harbor": "Moss"}<|call|>',
}
