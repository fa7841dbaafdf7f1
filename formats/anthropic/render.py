"""Conversation → Anthropic Messages request; the inverse of `formats.anthropic.request`.

A request that came in this dialect goes on as the client wrote it: every field and cache mark. Only
what the upstream would refuse is taken out of its history: blank text, and reasoning without a
signature of Anthropic's own.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from formats.codec import ABSENT, given, raw_string
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
from formats.request import BILLING, check_messages, check_tools, fitted_max_tokens

# Anthropic's signatures have hundreds of characters; shorter ones were made up on the way.
_SIGNATURE_CHARS = 100
# `max_tokens` is required here and optional for an OpenAI client.
_DEFAULT_MAX_TOKENS = 8192
_MIN_BUDGET = 1024
_UNSIGNED = "no signature of Anthropic's"

_encode = msgspec.json.encode


_objects = msgspec.json.Decoder(list[Raw])
_message = msgspec.json.Decoder(dict[str, Raw])
_contents = msgspec.json.Decoder(str | list[Raw] | None)


def render(conversation: Conversation, target: Target, *, stream: bool = True) -> Rendered:
    """The request for an Anthropic upstream; raises ClientError."""
    notices: list[Notice] = []
    if conversation.dialect == "anthropic":
        fields: dict[str, object] = dict(conversation.source)
        scrub = _Scrub(target, notices)
        fields["messages"] = scrub.messages(conversation.source["messages"])
        if "system" in fields:
            fields["system"] = scrub.content(conversation.source["system"])
            if not fields["system"]:
                del fields["system"]
        max_tokens = fitted_max_tokens(conversation, target, notices)
        if max_tokens != conversation.sampling.max_tokens:
            fields["max_tokens"] = max_tokens
    else:
        check_tools(conversation, target)
        fields = _fields(conversation, target, notices)
        server_tools = conversation.server_tools
        notices += [Notice(NoticeCode.SERVER_TOOL_DROPPED, tool.type) for tool in server_tools]
        notices += conversation.notices
    check_messages(fields["messages"])  # type: ignore[arg-type]
    fields["model"] = target.model or conversation.model
    fields["stream"] = stream
    fields |= target.fields
    return Rendered(_encode(fields), tuple(notices))


class _Scrub:
    """Takes out of a client's own blocks what the target refuses, and leaves the rest verbatim."""

    def __init__(self, target: Target, notices: list[Notice]) -> None:
        self._target = target
        self._notices = notices

    def messages(self, messages: Raw) -> list[object]:
        out: list[object] = []
        for raw in _objects.decode(messages):
            message = _message.decode(raw)
            before = message.get("content", ABSENT)
            after = self.content(before)
            if after is before:
                out.append(raw)
            elif after:
                out.append(message | {"content": after})
        return out

    def content(self, content: Raw) -> object:
        """The content itself, what is left of its blocks, or nothing."""
        value = _contents.decode(given(content) or b"null")
        if isinstance(value, str):
            if value.strip():
                return content
            self._notices.append(Notice(NoticeCode.BLANK_TEXT_DROPPED))
            return None
        kept = [block for raw in value or () if (block := self._block(raw)) is not None]
        same = value is not None and len(kept) == len(value) and all(map(_is, kept, value))
        return content if same else kept

    def _block(self, raw: Raw) -> object | None:
        block = _message.decode(raw)
        match _string(block, "type"):
            case "thinking" if self._target.is_anthropic and not _is_genuine(
                _string(block, "signature")
            ):
                self._notices.append(Notice(NoticeCode.REASONING_DROPPED, _UNSIGNED))
                return None
            case "text" if not _string(block, "text").strip():
                self._notices.append(Notice(NoticeCode.BLANK_TEXT_DROPPED))
                return None
            case "text" if not self._target.is_anthropic:
                return None if _string(block, "text").startswith(BILLING) else raw
            case "tool_result" if given(before := block.get("content", ABSENT)):
                after = self.content(before)
                if after is not before:
                    return block | {"content": after or []}
        return raw


def _string(block: dict[str, Raw], name: str) -> str:
    raw = bytes(block.get(name, b""))
    return str(msgspec.json.decode(raw)) if raw.startswith(b'"') else ""


def _is(one: object, other: object) -> bool:
    return one is other


def _is_genuine(signature: str | None) -> bool:
    return signature is not None and len(signature) >= _SIGNATURE_CHARS


def _fields(conversation: Conversation, target: Target, notices: list[Notice]) -> dict[str, object]:
    sampling = conversation.sampling
    max_tokens = fitted_max_tokens(conversation, target, notices) or _DEFAULT_MAX_TOKENS
    fields: dict[str, object] = {
        "max_tokens": max_tokens,
        "messages": _render_messages(conversation.messages, notices),
    }
    if system := [text.text for text in conversation.system if text.text.strip()]:
        fields["system"] = [{"type": "text", "text": text} for text in system]
    if conversation.tools:
        fields["tools"] = [
            {"name": tool.name}
            | ({"description": tool.description} if tool.description else {})
            | {"input_schema": Raw(tool.schema)}
            | ({"strict": True} if tool.strict else {})
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
        "thinking": _thinking(conversation, max_tokens, notices),
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


def _thinking(
    conversation: Conversation, max_tokens: int, notices: list[Notice]
) -> dict[str, object] | None:
    mode = conversation.reasoning
    if mode.enabled is False or mode.effort == "none":
        return {"type": "disabled"}
    if mode.budget is None:
        return None
    # The budget is a part of `max_tokens`, and has a minimum.
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
            notices.append(Notice(NoticeCode.REASONING_DROPPED, _UNSIGNED))
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
