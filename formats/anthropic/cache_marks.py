"""Keeps the cache marks of a conversation within Anthropic's limit of four.

The first mark stays, because the system prompt and the tools before it are shared by sessions, and
the last three, because the next turn continues after them.
"""

from msgspec.structs import replace

from formats.conversation import (
    CacheMark,
    Conversation,
    Part,
    Reasoning,
    RedactedReasoning,
    ToolResult,
)
from formats.events import Notice, NoticeCode

_LIMIT = 4


def mark_of(part: Part) -> CacheMark | None:
    """Return the mark of a part; a result also has those of its content."""
    if isinstance(part, Reasoning | RedactedReasoning):
        return None
    if isinstance(part, ToolResult) and part.cache is None:
        return next((item.cache for item in reversed(part.content) if item.cache), None)
    return part.cache


def limit_marks(conversation: Conversation, notices: list[Notice]) -> Conversation:
    """Remove the marks beyond the limit, with a notice."""
    parts = [*conversation.system, *(p for m in conversation.messages for p in m.parts)]
    marked = sum(tool.cache is not None for tool in conversation.tools)
    marked += sum(mark_of(part) is not None for part in parts)
    if marked <= _LIMIT:
        return conversation
    notices.append(Notice(NoticeCode.LIMIT_CLAMPED, f"cache_control {marked} → {_LIMIT}"))
    places = iter(range(marked))

    def is_kept() -> bool:
        place = next(places)
        return place == 0 or place > marked - _LIMIT

    def kept(part: Part) -> Part:
        return part if mark_of(part) is None or is_kept() else _unmarked(part)

    return replace(
        conversation,
        tools=tuple(
            tool if tool.cache is None or is_kept() else replace(tool, cache=None)
            for tool in conversation.tools
        ),
        system=tuple(map(kept, conversation.system)),
        messages=tuple(
            replace(message, parts=tuple(map(kept, message.parts)))
            for message in conversation.messages
        ),
    )


def _unmarked(part: Part) -> Part:
    if isinstance(part, ToolResult):
        content = tuple(replace(item, cache=None) for item in part.content)
        return replace(part, cache=None, content=content)
    return replace(part, cache=None)
