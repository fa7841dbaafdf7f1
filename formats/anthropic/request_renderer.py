"""Renders a conversation as an Anthropic Messages request; the inverse of `request_parser`.

A request that came in this dialect is passed on byte for byte, except for values that the route
sets. Blocks that the upstream would reject are removed from its history (`block_filter`); the
blocks that stay keep their bytes.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from formats.anthropic.block_filter import REJECTED, UNSIGNED, BlockFilter, is_genuine
from formats.anthropic.cache_marks import limit_marks, mark_of
from formats.conversation import (
    CACHE_DROPPED,
    CacheMark,
    Conversation,
    Document,
    Image,
    Message,
    Part,
    Reasoning,
    RedactedReasoning,
    Rendered,
    Role,
    Target,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from formats.events import Notice, NoticeCode
from formats.history import make_ids_safe, order_results
from formats.json_codec import ABSENT, encode, value_or_none
from formats.json_splice import replace_values
from formats.target_limits import (
    check_messages,
    check_tools,
    clamped_max_tokens,
    leave_out_server_tools,
)
from formats.tool_cache import cached_by_tools
from formats.tool_schema import repair_in_place, repair_notices, with_type

# `max_tokens` is required by Anthropic, but optional for OpenAI clients.
_DEFAULT_MAX_TOKENS = 8192
_MIN_BUDGET = 1024

_object = msgspec.json.Decoder(dict[str, Raw])


def render(conversation: Conversation, target: Target, *, stream: bool = True) -> Rendered:
    """Render the request for an upstream of this dialect; raises ClientError."""
    notices: list[Notice] = []
    if conversation.dialect == "anthropic":
        return _pass_through(conversation, target, stream, notices)
    check_tools(conversation, target)
    if CACHE_DROPPED in conversation.notices:
        conversation = limit_marks(conversation, notices)
    fields = _fields(conversation, target, notices)
    notices += leave_out_server_tools(conversation, conversation.server_tools)
    notices += [notice for notice in conversation.notices if notice != CACHE_DROPPED]
    check_messages(fields["messages"])  # type: ignore[arg-type]
    fields["model"] = target.model or conversation.model
    fields["stream"] = stream
    fields |= target.fields
    return Rendered(encode(fields), tuple(notices))


def _pass_through(
    conversation: Conversation, target: Target, stream: bool, notices: list[Notice]
) -> Rendered:
    """Keep the client's JSON text, and replace values in it."""
    source = conversation.source
    block_filter = BlockFilter(target, notices)
    messages = block_filter.messages(source["messages"])
    system = block_filter.content(source["system"]) if "system" in source else None
    changes: dict[str, object] = {}
    if not isinstance(messages, Raw):
        check_messages(messages)
        changes["messages"] = messages
    if system and system is not source["system"]:
        changes["system"] = system
    max_tokens = clamped_max_tokens(conversation, target, notices)
    if max_tokens != conversation.sampling.max_tokens:
        changes["max_tokens"] = max_tokens
    if target.model not in (None, conversation.model):
        changes["model"] = target.model
    if stream != conversation.stream:
        changes["stream"] = stream
    if repairs := _repairs(conversation.tools):
        notices += repairs
        changes["tools"] = repair_in_place(source["tools"], ("input_schema",), with_type)
    if not conversation.tool_choice.parallel and conversation.tools:
        changes |= _sequential(conversation)
    changes |= target.fields
    if "system" in source and not system:  # rejected if empty; `replace_values` cannot remove it
        kept = {name: value for name, value in source.items() if name != "system"}
        return Rendered(encode(kept | changes), tuple(notices))
    body = replace_values(conversation.body, source, changes)
    return Rendered(body or encode(source | changes), tuple(notices))


def _sequential(conversation: Conversation) -> dict[str, object]:
    """A `tool_choice` that allows one call at a time; empty if the client's does already."""
    choice = value_or_none(conversation.source.get("tool_choice", ABSENT))
    fields = _object.decode(choice or b"{}")
    if value_or_none(fields.get("disable_parallel_tool_use", ABSENT)) == b"true":
        return {}
    return {"tool_choice": _tool_choice(conversation)}


def _fields(conversation: Conversation, target: Target, notices: list[Notice]) -> dict[str, object]:
    sampling = conversation.sampling
    max_tokens = clamped_max_tokens(conversation, target, notices) or _DEFAULT_MAX_TOKENS
    fields: dict[str, object] = {
        "max_tokens": max_tokens,
        "messages": _render_messages(conversation.messages, target, notices),
    }
    if system := [text for text in conversation.system if text.text.strip()]:
        fields["system"] = [_marked({"type": "text", "text": t.text}, t.cache) for t in system]
    if conversation.tools:
        fields["tools"] = _rendered_tools(conversation.tools)
        notices += _repairs(conversation.tools)
        fields["tool_choice"] = _tool_choice(conversation)
    if sampling.temperature is not None:
        fields["temperature"] = min(sampling.temperature, 1.0)
        if sampling.temperature > 1:
            notices.append(Notice(NoticeCode.LIMIT_CLAMPED, "temperature is at most 1"))
    optional = {
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "stop_sequences": sampling.stop or None,
        "metadata": {"user_id": sampling.user} if sampling.user else None,
        "thinking": _thinking(conversation, max_tokens, notices),
        "output_config": _output_config(conversation),
    }
    return fields | {name: value for name, value in optional.items() if value is not None}


@cached_by_tools
def _rendered_tools(tools: tuple[Tool, ...]) -> Raw:
    return Raw(encode([_rendered_tool(tool) for tool in tools]))


def _rendered_tool(tool: Tool) -> dict[str, object]:
    fields: dict[str, object] = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    fields["input_schema"] = Raw(with_type(tool))
    if tool.strict:
        fields["strict"] = True
    return _marked(fields, tool.cache)


@cached_by_tools
def _repairs(tools: tuple[Tool, ...]) -> tuple[Notice, ...]:
    return repair_notices(tools, with_type)


def _tool_choice(conversation: Conversation) -> dict[str, object]:
    choice = conversation.tool_choice
    fields: dict[str, object] = {"type": choice.mode}
    if choice.mode == "tool":
        fields["name"] = choice.name
    if not choice.parallel and choice.mode != "none":
        fields["disable_parallel_tool_use"] = True
    return fields


def _thinking(
    conversation: Conversation, max_tokens: int, notices: list[Notice]
) -> dict[str, object] | None:
    mode = conversation.reasoning
    if mode.enabled is False or mode.effort == "none":
        return {"type": "disabled"}
    if mode.budget is None:
        return None
    # The budget must be below `max_tokens`, and has a minimum.
    if max_tokens <= _MIN_BUDGET:
        notices.append(Notice(NoticeCode.FIELD_DROPPED, "reasoning"))
        return None
    return {"type": "enabled", "budget_tokens": min(mode.budget, max_tokens - 1)}


def _output_config(conversation: Conversation) -> dict[str, object] | None:
    config: dict[str, object] = {}
    effort = conversation.reasoning.effort
    if effort and effort != "none":
        config["effort"] = "low" if effort == "minimal" else effort
    if conversation.output_schema:
        config["format"] = {"type": "json_schema", "schema": Raw(conversation.output_schema)}
    return config or None


def _render_messages(
    messages: Iterable[Message], target: Target, notices: list[Notice]
) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    # Blocks of the newest message. Adjacent messages of the same role are joined.
    open_blocks: list[dict[str, object]] = []
    for message in make_ids_safe(order_results(messages, notices)):
        parts = message.parts
        if not target.takes_thinking:
            parts = tuple(p for p in parts if not isinstance(p, Reasoning | RedactedReasoning))
            if len(parts) < len(message.parts):
                notices.append(Notice(NoticeCode.REASONING_DROPPED, REJECTED))
        blocks = [
            _marked(block, mark_of(part))
            for part in parts
            if (block := _render_part(part, notices))
        ]
        role = "user" if message.role is Role.SYSTEM else message.role.value
        if message.role is Role.SYSTEM and blocks:
            text = "\n\n".join(part.text for part in message.parts if isinstance(part, Text))
            reminder = f"<system-reminder>\n{text}\n</system-reminder>"
            mark = next((mark for part in reversed(parts) if (mark := mark_of(part))), None)
            blocks = [_marked({"type": "text", "text": reminder}, mark)]
        if blocks and out and out[-1]["role"] == role:
            open_blocks += blocks
        elif blocks:
            open_blocks = blocks
            out.append({"role": role, "content": blocks})
    return out


def _render_part(part: Part, notices: list[Notice]) -> dict[str, object] | None:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case Image():
            return {"type": "image", "source": _source(part.media_type, part.data, part.url)}
        case Document(text=str(text)):
            source: dict[str, object] = {"type": "text", "media_type": "text/plain", "data": text}
            return {"type": "document", "source": source, **_title(part)}
        case Document():
            source = _source(part.media_type, part.data, part.url)
            return {"type": "document", "source": source, **_title(part)}
        case Reasoning(text=text, signature=signature) if is_genuine(signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Reasoning():
            notices.append(Notice(NoticeCode.REASONING_DROPPED, UNSIGNED))
            return None
        case RedactedReasoning(data=data):
            return {"type": "redacted_thinking", "data": data}
        case ToolCall():
            call = {"type": "tool_use", "id": part.id, "name": part.name}
            return call | {"input": Raw(part.arguments)}
        case ToolResult():
            content = [block for item in part.content if (block := _render_part(item, notices))]
            result: dict[str, object] = {"type": "tool_result", "tool_use_id": part.call_id}
            return result | {"content": content} | ({"is_error": True} if part.is_error else {})


def _marked(block: dict[str, object], mark: CacheMark | None) -> dict[str, object]:
    return block if mark is None else block | {"cache_control": mark}


def _title(document: Document) -> dict[str, str]:
    return {"title": document.title} if document.title else {}


def _source(media_type: str | None, data: str | None, url: str | None) -> dict[str, object]:
    if url is not None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type, "data": data}
