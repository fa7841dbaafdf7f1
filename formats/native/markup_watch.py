"""Reports native markup that reaches the client as text, because the model's format is wrong.

The text itself is not changed. A notice names the format that the model probably uses, so that an
operator can add an override before users complain. Markup that no family is known to write is
reported as `unknown`.
"""

import re
from collections.abc import Iterable

from formats.events import Event, MessageEnd, MessageFailed, Notice, NoticeCode, TextDelta
from formats.native.rescue import CallRescue
from formats.native.unknown_markup import UNKNOWN, UnknownMarkup
from formats.toolbox import Toolbox

# Opening markers of all recorded families, including those that this library cannot read.
_SIGNS = {
    "kimi": [
        r"<\|tool_calls?_section_begin\|>",
        r"<\|tool_call_begin\|>",
        r"<\|open\|>(?:call|tools)\b",
    ],
    "deepseek": ["<｜tool▁calls?▁begin｜>", "<[|｜‖]+ ?DSML ?[|｜‖]+"],
    "glm": ["<arg_key>"],
    "minimax": ["<minimax:tool_call>", r"<\]minimax"],
    "seed": ["<seed:tool_call>"],
    "step": ["<steptml:"],
    "qwen": [r"<tool_call>\s*[{<]", r"<function=[\w.-]+>", "✿FUNCTION✿"],
    "granite": [r"<\|tool_call\|>\s*\["],
    "cohere": [r"<\|START_ACTION\|>"],
    "gemma": [r"<\|tool_call>\s*call:", r"<start_function_call>"],
    "harmony": [r"<\|channel\|>"],
    "internlm": [r"<\|action_start\|>"],
    "jamba": [r"<tool_calls>\s*[\[{]"],
    "lfm": [r"<\|tool_call_start\|>"],
    "llama": [r"<\|python_(?:tag|start)\|>"],
    "longcat": ["<longcat_tool_call>"],
    "mistral": [r"\[TOOL_CALLS\]"],
    "nemotron": [r"<TOOLCALL>\s*\["],
}
# A marker in a code span is only mentioned.
_GROUPS = "|".join(f"(?P<{family}>{'|'.join(signs)})" for family, signs in _SIGNS.items())
_SIGN = re.compile(f"(?<!`)(?:{_GROUPS})")
_INITIALS = ("<", "✿", "[")
_LONGEST_SIGN = 64


class MarkupWatch:
    def __init__(
        self,
        native: CallRescue | None = None,
        family: str = "",
        toolbox: Toolbox | None = None,
    ) -> None:
        """`native` reads the markup of `family`; markup of that family in its output is text.

        `toolbox` holds the tools by whose calls unknown markup is recognised.
        """
        self._native = native
        self._family = family
        self._unknown = None if toolbox is None or toolbox.is_empty else UnknownMarkup(toolbox)
        self._tail = ""  # text that may be the beginning of a sign, and the character before it
        self._previous = ""  # the last character
        self._seen: str | None = None  # the family whose sign was seen

    def try_pass(self, event: Event) -> bool:
        """Record a delta and return True if it passes unchanged; else do nothing."""
        if type(event) is TextDelta and self._seen is None:
            text = event.text
            if self._tail or "<" in text or "[" in text or "✿" in text:
                return False
            if self._native is not None and not self._native.try_pass(event):
                return False
            if self._unknown is not None and (self._unknown.is_pending or "`" in text):
                self._unknown.add(text, self._previous)
            self._previous = text[-1:] or self._previous
            return True
        return self._native is None or self._native.try_pass(event)

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """Return the events, with a notice before the end of the message if markup was seen."""
        out = list(events) if self._native is None else self._native.feed(events)
        for event in out:
            if type(event) is TextDelta and self._seen is None:
                text = event.text
                if self._tail or "<" in text or "[" in text or "✿" in text:
                    self._look((self._tail or self._previous) + text)
                if self._unknown is not None and (
                    self._unknown.is_pending or "<" in text or "[" in text or "`" in text
                ):
                    self._unknown.add(text, self._previous)
                self._previous = text[-1:] or self._previous
            elif self._unknown is not None and isinstance(event, MessageEnd | MessageFailed):
                if self._seen is None and self._unknown.close():
                    self._seen = UNKNOWN
        return out if self._seen is None else _with_notice(out, self._seen)

    def take(self) -> list[Event]:
        """Return the events that were made before an error was raised."""
        return [] if self._native is None else self._native.take()

    def _look(self, text: str) -> None:
        for sign in _SIGN.finditer(text):
            if sign.lastgroup != self._family:
                self._seen = sign.lastgroup
                return
        start = max(text.rfind(initial) for initial in _INITIALS)
        recent = start >= max(len(text) - _LONGEST_SIGN, 0)
        self._tail = text[max(start - 1, 0) :] if recent and start >= 0 else ""


def _with_notice(events: list[Event], family: str) -> list[Event]:
    out: list[Event] = []
    for event in events:
        if isinstance(event, MessageEnd | MessageFailed):
            out.append(Notice(NoticeCode.NATIVE_MARKUP_SEEN, family))
        out.append(event)
    return out
