"""Names → dialects and native formats, and a model's id → its format.

A new dialect or format is one entry here. Overrides are data that the caller passes in.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from formats import anthropic, openai
from formats.conversation import Conversation, Rendered, Target
from formats.errors import Limits
from formats.native.deepseek import DEEPSEEK
from formats.native.kimi import KIMI
from formats.native.machine import NativeFormat
from formats.native.qwen import QWEN
from formats.pipeline import Decoder

STANDARD = "standard"


@dataclass(frozen=True, slots=True)
class Dialect:
    parse: Callable[[bytes], Conversation]
    render: Callable[..., Rendered]
    decoder: Callable[[Limits], Decoder]
