"""Conversation → Anthropic Messages request; the inverse of `formats.anthropic.request`.

A request that came in this dialect goes on as the client wrote it: every field, header pair and
cache mark. Only what Anthropic would refuse is taken out of its history: blank text, and reasoning
without a signature of Anthropic's own.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from formats.codec import raw_string
from formats.conversation import (
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
    ToolCall,
    ToolResult,
)
from formats.events import Notice, NoticeCode
from formats.history import ordered, safe_ids

# Anthropic's signatures have hundreds of characters; shorter ones were made up on the way.
_SIGNATURE_CHARS = 100
# `max_tokens` is required here and optional for an OpenAI client.
_DEFAULT_MAX_TOKENS = 8192

_encode = msgspec.json.encode


class _Block(Struct):
    type: str = ""
    text: str = ""
    signature: str | None = None


_objects = msgspec.json.Decoder(list[dict[str, Raw]])
_blocks = msgspec.json.Decoder(list[Raw])
_block = msgspec.json.Decoder(_Block)


def render(conversation: Conversation, target: Target, *, stream: bool = True) -> Rendered:
    """The request for an Anthropic upstream; raises ClientError."""
    notices: list[Notice] = []
    if conversation.dialect == "anthropic":
        fields: dict[str, object] = dict(conversation.source)
        fields["messages"] = _scrubbed(conversation.source["messages"], notices)
    else:
        fields = _fields(conversation, notices)
        notices += [Notice(NoticeCode.FIELD_DROPPED, name) for name in conversation.unsupported]
    fields["model"] = target.model or conversation.model
    fields["stream"] = stream
    return Rendered(_encode(fields), tuple(notices))


def _scrubbed(messages: Raw, notices: list[Notice]) -> object:
    """The client's messages without the blocks that Anthropic refuses."""
    changed = False
    out: list[dict[str, object]] = []
    for message in _objects.decode(messages):
        content = bytes(message.get("content", b""))
        kept: list[Raw] | None = None
        if content.startswith(b"["):
            blocks = _blocks.decode(content)
            kept = [block for block in blocks if _is_welcome(_block.decode(block), notices)]
            if len(kept) == len(blocks):
                kept = None
        if kept is None:
            out.append(dict(message))
            continue
        changed = True
        if kept:
            out.append(message | {"content": kept})
    return out if changed else messages


def _is_welcome(block: _Block, notices: list[Notice]) -> bool:
    if block.type == "thinking" and not _is_genuine(block.signature):
        notices.append(Notice(NoticeCode.REASONING_DROPPED, "no signature of Anthropic's"))
        return False
    if block.type == "text" and not block.text.strip():
        notices.append(Notice(NoticeCode.BLANK_TEXT_DROPPED))
        return False
    return True


def _is_genuine(signature: str | None) -> bool:
    return signature is not None and len(signature) >= _SIGNATURE_CHARS


def _fields(conversation: Conversation, notices: list[Notice]) -> dict[str, object]:
    sampling = conversation.sampling
    fields: dict[str, object] = {
        "max_tokens": sampling.max_tokens or _DEFAULT_MAX_TOKENS,
        "messages": _render_messages(conversation.messages, notices),
    }
    if conversation.system:
        fields["system"] = [{"type": "text", "text": part.text} for part in conversation.system]
    if conversation.tools:
        fields["tools"] = [
            {"name": tool.name}
            | ({"description": tool.description} if tool.description else {})
            | {"input_schema": Raw(tool.schema)}
            for tool in conversation.tools
        ]
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
        "thinking": _thinking(conversation),
        "output_config": _output_config(conversation),
    }
    return fields | {name: value for name, value in optional.items() if value is not None}


def _tool_choice(conversation: Conversation) -> dict[str, object]:
    choice = conversation.tool_choice
    fields: dict[str, object] = {"type": choice.mode}
    if choice.mode == "tool":
        fields["name"] = choice.name
    if not choice.parallel and choice.mode != "none":
        fields["disable_parallel_tool_use"] = True
    return fields


def _thinking(conversation: Conversation) -> dict[str, object] | None:
    match conversation.reasoning.enabled, conversation.reasoning.budget:
        case False, _:
            return {"type": "disabled"}
        case _, int(budget):
            return {"type": "enabled", "budget_tokens": budget}
    return None


def _output_config(conversation: Conversation) -> dict[str, object] | None:
    config: dict[str, object] = {}
    if conversation.reasoning.effort:
        config["effort"] = conversation.reasoning.effort
    if conversation.output_schema:
        config["format"] = {"type": "json_schema", "schema": Raw(conversation.output_schema)}
    return config or None


def _render_messages(messages: Iterable[Message], notices: list[Notice]) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for message in safe_ids(ordered(messages, notices)):
        blocks = [block for part in message.parts if (block := _render_part(part, notices))]
        role = "user" if message.role is Role.SYSTEM else message.role.value
        if message.role is Role.SYSTEM and blocks:
            text = "\n\n".join(part.text for part in message.parts if isinstance(part, Text))
            reminder = f"<system-reminder>\n{text}\n</system-reminder>"
            blocks = [{"type": "text", "text": reminder}]
        if blocks and out and out[-1]["role"] == role:
            out[-1]["content"] = [*_list(out[-1]["content"]), *blocks]
        elif blocks:
            out.append({"role": role, "content": blocks})
    return out


def _list(content: object) -> list[object]:
    return content if isinstance(content, list) else []


def _render_part(part: Part, notices: list[Notice]) -> dict[str, object] | None:
    match part:
        case Text(text=text):
            return {"type": "text", "text": raw_string(text)} if text.strip() else None
        case Image():
            return {"type": "image", "source": _source(part.media_type, part.data, part.url)}
        case Document(text=str(text)):
            source: dict[str, object] = {"type": "text", "media_type": "text/plain", "data": text}
            return {"type": "document", "source": source, **_title(part)}
        case Document():
            source = _source(part.media_type, part.data, part.url)
            return {"type": "document", "source": source, **_title(part)}
        case Reasoning(text=text, signature=signature) if _is_genuine(signature):
            return {"type": "thinking", "thinking": raw_string(text), "signature": signature}
        case Reasoning():
            notices.append(Notice(NoticeCode.REASONING_DROPPED, "no signature of Anthropic's"))
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


def _title(document: Document) -> dict[str, str]:
    return {"title": document.title} if document.title else {}


def _source(media_type: str | None, data: str | None, url: str | None) -> dict[str, object]:
    if url is not None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": media_type, "data": data}
