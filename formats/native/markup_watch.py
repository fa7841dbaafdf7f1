"""Watches what goes out as text: is there native markup that the model's format does not read?

Nothing is changed. Markup that reached a client is a model whose format is not known, or is taken
for another; the notice names the likely one, so that an operator can make an override before anyone
complains.
"""

import re
from collections.abc import Iterable

from formats.events import Event, MessageEnd, MessageFailed, Notice, NoticeCode, TextDelta
from formats.native.rescue import CallRescue

# The openings of every family that is on record, known to this library or not.
_SIGNS = {
    "kimi": [r"<\|tool_calls?_section_begin\|>", r"<\|tool_call_begin\|>"],
    "deepseek": ["<｜tool▁calls?▁begin｜>", "<[|｜‖]+ ?DSML ?[|｜‖]+"],
    "glm": ["<arg_key>"],
    "minimax": ["<minimax:tool_call>"],
    "qwen": [r"<tool_call>\s*[{<]", r"<function=[\w.-]+>", "✿FUNCTION✿"],
    "harmony": [r"<\|channel\|>"],
    "mistral": [r"\[TOOL_CALLS\]"],
    "llama": [r"<\|python_tag\|>"],
}
# One that stands in a code span is being talked about.
_GROUPS = "|".join(f"(?P<{family}>{'|'.join(signs)})" for family, signs in _SIGNS.items())
_SIGN = re.compile(f"(?<!`)(?:{_GROUPS})")
_INITIALS = ("<", "✿", "[")
_LONGEST = 64


class MarkupWatch:
    def __init__(self, native: CallRescue | None = None, family: str = "") -> None:
        """`native` reads the family's own markup: what of that it leaves as text is no call."""
        self._native = native
        self._family = family
        self._tail = ""  # where a sign may have begun
        self._seen: str | None = None

    def try_pass(self, event: Event) -> bool:
        """Whether a delta of text or reasoning goes on as it is, and nothing else."""
        if type(event) is TextDelta and self._seen is None:
            text = event.text
            if self._tail or "<" in text or "[" in text or "✿" in text:
                return False
        return self._native is None or self._native.try_pass(event)

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """The events as they are; at the message's end a notice of what was seen."""
        out = list(events) if self._native is None else self._native.feed(events)
        for event in out:
            if type(event) is TextDelta and self._seen is None:
                text = event.text
                if self._tail or "<" in text or "[" in text or "✿" in text:
                    self._look(self._tail + text)
        return out if self._seen is None else _announced(out, self._seen)

    def _look(self, text: str) -> None:
        for found in _SIGN.finditer(text):
            if found.lastgroup != self._family:
                self._seen = found.lastgroup
                return
        start = max(text.rfind(initial) for initial in _INITIALS)
        recent = start >= max(len(text) - _LONGEST, 0)
        self._tail = text[max(start - 1, 0) :] if recent and start >= 0 else ""


def _announced(events: list[Event], family: str) -> list[Event]:
    """The events, with a notice before the message's end."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, MessageEnd | MessageFailed):
            out.append(Notice(NoticeCode.NATIVE_MARKUP_SEEN, family))
        out.append(event)
    return out
