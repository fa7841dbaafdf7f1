"""Passes a request on to an upstream of the same dialect, with a few JSON values replaced.

If messages or tools must be changed, they are rendered again and only the other fields are kept.
"""

import re
from collections.abc import Iterable, Mapping

from formats.conversation import Conversation, ServerTool, Target, ToolCall
from formats.events import Notice, NoticeCode
from formats.json_codec import ABSENT, value_or_none
from formats.json_splice import replace_values
from formats.tool_schema import repair_in_place, with_properties

TOOL_FIELDS = frozenset(
    {"tools", "functions", "tool_choice", "function_call", "parallel_tool_calls"}
)
REASONING_NOTICES = frozenset({NoticeCode.REASONING_DROPPED, NoticeCode.REASONING_PLACEHOLDER})
# Notices of parsing about things that the upstream would reject.
_REJECTED = frozenset({NoticeCode.HISTORY_SANITISED, NoticeCode.SHAPE_TRANSLATED})
# Notices about values that are replaced in the client's text.
_IN_PLACE = frozenset(
    {NoticeCode.LIMIT_CLAMPED, NoticeCode.SCHEMA_REPAIRED, NoticeCode.THINKING_HIDDEN}
)
_GATEWAY_FIELDS = frozenset({"model", "stream", "stream_options"})
# A server tool that is a field of its own, which every upstream of this dialect is sent.
SEARCH_FIELD = "web_search_options"
# The fields with functions, and the path from each function to its schema.
_SCHEMAS = {"tools": ("function", "parameters"), "functions": ("parameters",)}
_LIMITS = ("max_tokens", "max_completion_tokens")
_MISTRAL_ID = re.compile("[A-Za-z0-9]{9}")


def can_pass(conversation: Conversation, target: Target, notices: Iterable[Notice]) -> bool:
    """True if the client's messages and tools can be passed on unchanged.

    `notices` say what rendering them again would change.
    """
    if target.reasoning_field and not target.keeps_reasoning:
        return False
    if target.native_ids == "kimi" or (target.native_ids and not _has_mistral_ids(conversation)):
        return False
    is_rejected = any(notice.code in _REJECTED for notice in conversation.notices)
    ignored = {*_IN_PLACE, *(REASONING_NOTICES if target.keeps_reasoning else ())}
    return not is_rejected and all(notice.code in ignored for notice in notices)


def _has_mistral_ids(conversation: Conversation) -> bool:
    parts = (part for message in conversation.messages for part in message.parts)
    return all(_MISTRAL_ID.fullmatch(part.id) for part in parts if type(part) is ToolCall)


def declared_server_tools(conversation: Conversation) -> list[ServerTool]:
    """Return the server tools in `tools`."""
    return [tool for tool in conversation.server_tools if tool.type != SEARCH_FIELD]


def repaired_tools(conversation: Conversation) -> dict[str, object]:
    """The client's fields with tools, with repaired schemas."""
    source = conversation.source
    return {
        name: repair_in_place(source[name], path, with_properties)
        for name, path in _SCHEMAS.items()
        if value_or_none(source.get(name, ABSENT))
    }


def passthrough_fields(
    conversation: Conversation, max_tokens: int | None, repaired: Mapping[str, object]
) -> dict[str, object]:
    """The client's top-level fields, except those that the gateway always sets."""
    excluded = _GATEWAY_FIELDS
    if not (conversation.tools or declared_server_tools(conversation)):
        excluded |= TOOL_FIELDS  # upstreams reject an empty list, or a choice without tools
    fields: dict[str, object] = {k: v for k, v in conversation.source.items() if k not in excluded}
    if max_tokens != conversation.sampling.max_tokens:
        fields |= {name: max_tokens for name in _LIMITS if name in fields}
    return {**fields, **repaired}


def passthrough_body(
    conversation: Conversation,
    target: Target,
    max_tokens: int | None,
    repaired: Mapping[str, object],
    *,
    stream: bool,
) -> bytes | None:
    """The client's body with the values of the route; None if replacing values is not enough.

    Every stream asks for usage, for the audit; `usage_filter` hides it from other clients.
    """
    source = conversation.source
    if (
        not (conversation.tools or declared_server_tools(conversation))
        and source.keys() & TOOL_FIELDS
    ):
        return None  # upstreams reject an empty list, or a choice without tools
    changes: dict[str, object] = {**repaired}
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
