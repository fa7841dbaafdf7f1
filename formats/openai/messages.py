"""Messages of Chat Completions → messages of a conversation."""

import base64
from collections.abc import Iterator
from contextlib import suppress

import msgspec
from msgspec import Raw

from formats.arguments import Arguments, Status
from formats.codec import encode_string
from formats.conversation import (
    Document,
    Image,
    Message,
    Part,
    Reasoning,
    RedactedReasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.openai.wire import WireFunction, WireMessage, WirePart, WireUrl
from formats.request import require

_ROLES = {"developer": Role.SYSTEM, "system": Role.SYSTEM, "user": Role.USER}
_UNPARSED = b'{"unparsed_arguments":'


def parse_message(message: WireMessage, path: str, notices: dict[Notice, None]) -> Message:
    parts = list(_parse_content(message.content, path, notices))
    match message.role:
        case "system" | "developer" | "user":
            return Message(_ROLES[message.role], tuple(parts), path)
        case "tool" | "function":
            call_id = message.name if message.tool_call_id is None else message.tool_call_id
            content = tuple(part for part in parts if isinstance(part, Text | Image | Document))
            result = ToolResult(require(call_id, f"{path}.tool_call_id"), content)
            return Message(Role.USER, (result,), path)
        case "assistant":
            if message.refusal:
                parts.append(Text(message.refusal))
            parts = [
                *_parse_reasoning_parts(message),
                *parts,
                *_parse_calls(message, path, notices),
            ]
            return Message(Role.ASSISTANT, tuple(parts), path)
    raise ClientError(f"unknown role {message.role[:40]!r}", path=f"{path}.role")


def _parse_content(
    content: str | list[WirePart] | None, path: str, notices: dict[Notice, None]
) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    for index, part in enumerate(content or ()):
        place = f"{path}.content.{index}"
        match part.type:
            case "text" | "input_text" | "output_text":
                if text := require(part.text, f"{place}.text"):
                    yield Text(text)
            case "refusal":
                if part.refusal:
                    yield Text(part.refusal)
            case "image_url" | "input_image":
                if part.image_url is None:
                    raise ClientError("is required", path=f"{place}.image_url")
                yield _image(part.image_url)
            case "file" if part.file and part.file.file_data:
                yield _document(part.file.file_data, part.file.filename)
            case _:
                notices[Notice(NoticeCode.CONTENT_UNSUPPORTED, f"{part.type} part")] = None


def _parse_reasoning_parts(message: WireMessage) -> Iterator[Part]:
    """The assistant's earlier reasoning; details are the form that keeps seals."""
    sealed = [d for d in message.reasoning_details or () if d.is_anthropic()]
    if any(detail.signature or detail.data for detail in sealed):
        for detail in sealed:
            if detail.data:
                yield RedactedReasoning(detail.data)
            else:
                yield Reasoning(detail.text or "", detail.signature)
    elif reasoning := message.reasoning_content or message.reasoning:
        yield Reasoning(reasoning)


def _document(source: str, title: str | None) -> Document:
    if source.startswith(("http://", "https://")):
        return Document(url=source, title=title)
    media_type, data = "application/pdf", source
    if source.startswith("data:"):
        media_type, data = _data_url(source, media_type)
    if media_type.startswith("text/"):
        with suppress(ValueError):  # what is no base64 goes on as it is
            return Document(text=base64.b64decode(data).decode(), title=title)
    return Document(media_type=media_type, data=data, title=title)


def _image(source: WireUrl | str) -> Image:
    url = source if isinstance(source, str) else source.url
    if not url.startswith("data:"):
        return Image(url=url)
    media_type, data = _data_url(url, "image/png")
    return Image(media_type=media_type, data=data)


def _data_url(url: str, default: str) -> tuple[str, str]:
    head, _, data = url.partition(",")
    return head.removeprefix("data:").partition(";")[0] or default, data


def _parse_calls(
    message: WireMessage, path: str, notices: dict[Notice, None]
) -> Iterator[ToolCall]:
    def arguments(function: WireFunction, call_id: str) -> bytes:
        text = _arguments(function.arguments)
        if text.startswith(_UNPARSED):
            notices[Notice(NoticeCode.HISTORY_SANITISED, f"the arguments of {call_id}")] = None
        return text

    for index, call in enumerate(message.tool_calls or ()):
        place = f"{path}.tool_calls.{index}"
        function = require(call.function, f"{place}.function")
        name = require(function.name, f"{place}.function.name")
        call_id = require(call.id, f"{place}.id")
        yield ToolCall(call_id, name, arguments(function, call_id))
    if message.function_call is not None:
        name = require(message.function_call.name, f"{path}.function_call.name")
        # The legacy result names the function, not the call.
        yield ToolCall(name, name, arguments(message.function_call, name))


def _arguments(arguments: str | dict[str, Raw] | None) -> bytes:
    """The arguments of an earlier call. What is not an object would be refused by every upstream,
    for the rest of the conversation, so it is wrapped into one."""
    if isinstance(arguments, dict):
        return msgspec.json.encode(arguments)
    text = (arguments or "").strip()
    scan = Arguments()
    forward, end = scan.read(text)
    scan.finish()
    if scan.status is Status.EMPTY:
        return b"{}"
    if scan.status is Status.COMPLETE and end == len(text):
        return forward.encode() or b"{}"
    return _UNPARSED + encode_string(text) + b"}"
