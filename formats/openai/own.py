"""A client's own request, for an upstream of the same dialect: its text, a few values replaced."""

from formats.conversation import Conversation, Target
from formats.splice import spliced

ABOUT_TOOLS = frozenset(
    {"tools", "functions", "tool_choice", "function_call", "parallel_tool_calls"}
)


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
        names = source.keys() & {"max_tokens", "max_completion_tokens"}
        changes |= dict.fromkeys(names, max_tokens)
    if conversation.tools and not conversation.tool_choice.parallel:
        if bytes(source.get("parallel_tool_calls", b"")) != b"false":
            changes["parallel_tool_calls"] = False
    return spliced(conversation.body, source, changes | target.fields)
