"""Fits a request to the limits of its target: tools and their names, `max_tokens`, the user id.

Shared by the request renderers of both dialects.
"""

import hashlib
from collections.abc import Iterable, Sized

from formats.conversation import Conversation, ServerTool, Target, Tool
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.tool_cache import cached_by_tools

BILLING = "x-anthropic-billing-header"
"""Begins Claude Code's first system line. It differs between conversations and defeats caches."""

_NAME_CHARS = 64
_USER_CHARS = 64


def check_tools(conversation: Conversation, target: Target) -> None:
    """Raise ClientError for too many tools, or for a tool choice that the target cannot serve."""
    choice, count = conversation.tool_choice, len(conversation.tools)
    if choice.mode == "tool" and choice.name not in {tool.name for tool in conversation.tools}:
        raise ClientError(
            f"the tool {choice.name!r} is not available at this model's upstream",
            path="tool_choice.name",
        )
    if choice.mode == "any" and not count:
        raise ClientError("requires a tool, but none is available", path="tool_choice")
    if target.max_tools is not None and count > target.max_tools:
        raise ClientError(
            f"{count} tools > {target.max_tools} maximum for this model", path="tools"
        )


def leave_out_server_tools(
    conversation: Conversation, server_tools: Iterable[ServerTool]
) -> list[Notice]:
    """Return the notices about server tools that the upstream cannot run.

    Raises ClientError if the request has no other tools. A model without the tool would answer from
    memory, and the client would take that for the tool's result.
    """
    types = {tool.type: tool.name for tool in server_tools}
    if types and not conversation.tools and conversation.tool_choice.mode != "none":
        names = ", ".join(dict.fromkeys(types.values()))
        raise ClientError(
            f"{names[:200]} is not available at this model's upstream, and nothing was run",
            path="tools",
        )
    return [Notice(NoticeCode.SERVER_TOOL_DROPPED, type_) for type_ in types]


def clamped_max_tokens(
    conversation: Conversation, target: Target, notices: list[Notice]
) -> int | None:
    """Return the client's `max_tokens`, fitted to the model with a notice."""
    requested, limit = conversation.sampling.max_tokens, target.max_tokens
    if requested is not None and target.thinking_tokens and hides_thinking(conversation, target):
        raised = requested + target.thinking_tokens
        notices.append(Notice(NoticeCode.THINKING_HIDDEN, f"max_tokens {requested} → {raised}"))
        requested = raised
    if requested is None or limit is None or requested <= limit:
        return requested
    notices.append(Notice(NoticeCode.LIMIT_CLAMPED, f"max_tokens {requested} → {limit}"))
    return limit


def hides_thinking(conversation: Conversation, target: Target) -> bool:
    """True if the client switched thinking off and the model cannot stop it."""
    return target.thinking_tokens is not None and conversation.reasoning.enabled is False


def short_user_id(user: str | None) -> str | None:
    """Return the user id, or its hash if it has more than 64 characters.

    Claude Code's id is JSON of 160 characters with the id of its device. OpenAI rejects more than
    64 characters, OpenRouter more than 128.
    """
    if user is None or len(user) <= _USER_CHARS:
        return user
    return hashlib.sha256(user.encode()).hexdigest()


def check_messages(messages: Sized) -> None:
    if not messages:
        raise ClientError("no message has any content", path="messages")


@cached_by_tools
def shortened_names(tools: tuple[Tool, ...]) -> tuple[tuple[str, str], ...]:
    """Return (short name, name) of each tool whose name is longer than 64 characters."""
    return tuple(
        (short_name(tool.name), tool.name) for tool in tools if len(tool.name) > _NAME_CHARS
    )


def short_name(name: str) -> str:
    if len(name) <= _NAME_CHARS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _NAME_CHARS - 9]}_{digest}"
