"""Harmony, the format of gpt-oss.

    <|channel|>analysis<|message|>The harbor is Moss.<|end|>
    <|start|>assistant<|channel|>commentary to=functions.get_tide <|constrain|>json
    <|message|>{"harbor": "Moss"}<|call|>
    <|start|>assistant<|channel|>final<|message|>High water is at 14:32.<|return|>

The recipient may also follow the role, and the channel of a call does not matter. `analysis` is
reasoning; `final`, and `commentary` without a recipient, are text. The first message follows the
prompt's `<|start|>assistant`, so it begins with its channel or its recipient.
"""

from formats.native.format import NativeFormat
from formats.native.grammars.message_grammar import (
    BODY,
    CHANNEL,
    CONSTRAIN,
    MESSAGE_END,
    MESSAGE_START,
    FirstMessageGrammar,
    MessageGrammar,
)
from formats.native.markers import literal

_MESSAGES = MessageGrammar(
    {
        MESSAGE_START: [literal("<|start|>")],
        CHANNEL: [literal("<|channel|>")],
        CONSTRAIN: [literal("<|constrain|>")],
        BODY: [literal("<|message|>")],
        MESSAGE_END: [literal("<|end|>"), literal("<|call|>"), literal("<|return|>")],
    },
    reasoning_channels=["analysis"],
)

HARMONY = NativeFormat([_MESSAGES], at_start=[FirstMessageGrammar(_MESSAGES)])
