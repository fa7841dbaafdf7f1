"""A client's own request, for an upstream of the same dialect: its text, a few values replaced.

Where its history or its shapes had to be changed, its text cannot go on, and its other fields do.
"""

from collections.abc import Iterable

from formats.conversation import Conversation, Target
from formats.events import Notice, NoticeCode
from formats.json_splice import replace_values

ABOUT_TOOLS = frozenset(
    {"tools", "functions", "tool_choice", "function_call", "parallel_tool_calls"}
)
REASONING = frozenset({NoticeCode.REASONING_DROPPED, NoticeCode.REASONING_PLACEHOLDER})
# What parsing found, and an upstream of the client's own dialect would refuse.
_CHANGES = frozenset({NoticeCode.HISTORY_SANITISED, NoticeCode.SHAPE_TRANSLATED})
_OURS = frozenset({"model", "stream", "stream_options"})
_LIMITS = ("max_tokens", "max_completion_tokens")


def is_kept(conversation: Conversation, target: Target, notices: Iterable[Notice]) -> bool:
    """Whether the client's messages and tools can go on as they are.

    `notices` are of what rendering them anew would change.
    """
    if target.native_ids or (target.reasoning_field and not target.keeps_reasoning):
        return False
    found = any(notice.code in _CHANGES for notice in conversation.notices)
    ignored = {NoticeCode.LIMIT_CLAMPED, *(REASONING if target.keeps_reasoning else ())}
    return not found and all(notice.code in ignored for notice in notices)


def own_fields(conversation: Conversation, max_tokens: int | None) -> dict[str, object]:
    """The client's top-level fields, but for those that the gateway always sets."""
    left_out = _OURS
    if not (conversation.tools or conversation.server_tools):
        left_out |= ABOUT_TOOLS  # an empty list, or a choice without one, is refused
    fields: dict[str, object] = {k: v for k, v in conversation.source.items() if k not in left_out}
    if max_tokens != conversation.sampling.max_tokens:
        fields |= {name: max_tokens for name in _LIMITS if name in fields}
    return fields


def own_text(
    conversation: Conversation, target: Target, max_tokens: int | None, *, stream: bool
) -> bytes | None:
    """The text as the client wrote it, but for what the route sets; None if that cannot be.

    Usage is asked for in every stream, for the audit: the client gets it only if it asked as well.
    """
    source = conversation.source
    if not (conversation.tools or conversation.server_tools) and source.keys() & ABOUT_TOOLS:
        return None  # an empty list, or a choice without one, is refused
    changes: dict[str, object] = {}
    if target.model not in (None, conversation.model):
        changes["model"] = target.model
    if stream != conversation.stream:
        changes["stream"] = stream
    if stream and not conversation.include_usage:
        changes["stream_options"] = {"include_usage": True}
    if max_tokens != conversation.sampling.max_tokens:
        changes |= {name: max_tokens for name in _LIMITS if name in source}
    if conversation.tools and not conversation.tool_choice.parallel:
        if bytes(source.get("parallel_tool_calls", b"")) != b"false":
            changes["parallel_tool_calls"] = False
    return replace_values(conversation.body, source, changes | target.fields)
