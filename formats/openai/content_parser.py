"""Parses the content of a message, in the shapes of Chat Completions, Responses and Anthropic.

    {"type":"image_url",…}   {"type":"input_image",…}   {"type":"image","source":{…}}

A part of an unknown type is left out, with a notice.
"""

import base64
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from formats.conversation import (
    CACHE_DROPPED,
    CacheMark,
    Document,
    Image,
    Part,
    Reasoning,
    RedactedReasoning,
    Text,
    ToolCall,
    ToolResult,
)
from formats.events import Notice, NoticeCode
from formats.json_codec import ABSENT, value_or_none
from formats.media_sources import Source, document_from_source, image_from_source
from formats.openai.request_wire import Content
from formats.request_errors import parse_json, require_object


class _Url(Struct):
    url: str


class _File(Struct):
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class _Text(Struct, tag="text"):
    text: str
    cache_control: Raw = ABSENT


class _Refusal(Struct, tag="refusal"):
    refusal: str


class _Image(Struct, tag="image_url"):
    image_url: _Url | str
    cache_control: Raw = ABSENT


class _FilePart(Struct, tag="file"):
    file: _File
    cache_control: Raw = ABSENT


class _InputText(_Text, tag="input_text"):
    pass


class _OutputText(_Text, tag="output_text"):
    pass


class _InputImage(Struct, tag="input_image"):
    image_url: _Url | str | None = None
    cache_control: Raw = ABSENT


class _InputFile(_File, tag="input_file"):
    cache_control: Raw = ABSENT


class _ImageBlock(Struct, tag="image"):
    source: Source
    cache_control: Raw = ABSENT


class _DocumentBlock(Struct, tag="document"):
    source: Source
    title: str | None = None
    cache_control: Raw = ABSENT


class _Thinking(Struct, tag="thinking"):
    thinking: str | None = None
    signature: str | None = None


class _Redacted(Struct, tag="redacted_thinking"):
    data: str


class _ToolUse(Struct, tag="tool_use"):
    id: str
    name: str
    input: Raw = ABSENT
    cache_control: Raw = ABSENT


class _ToolResult(Struct, tag="tool_result"):
    tool_use_id: str
    content: Content = None
    is_error: bool | None = None
    cache_control: Raw = ABSENT


class _Kind(Struct):
    type: str


_CHAT_PARTS = (_Text, _Refusal, _Image, _FilePart)
_FOREIGN_PARTS = (
    _InputText,
    _OutputText,
    _InputImage,
    _InputFile,
    _ImageBlock,
    _DocumentBlock,
    _Thinking,
    _Redacted,
    _ToolUse,
    _ToolResult,
)
_UNMARKED = (_Refusal, _Thinking, _Redacted)  # these cannot be marked for the cache
_AnyPart: Any = reduce(or_, (*_CHAT_PARTS, *_FOREIGN_PARTS))
_parts: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder(_AnyPart)
_marks = msgspec.json.Decoder(CacheMark)
_kinds = msgspec.json.Decoder(_Kind)
_KNOWN_TYPES = frozenset(kind.__struct_config__.tag for kind in (*_CHAT_PARTS, *_FOREIGN_PARTS))


def note_translation(notices: dict[Notice, None], shape: str) -> None:
    """Note a shape of another API, so that the request is not passed through unchanged."""
    notices[Notice(NoticeCode.SHAPE_TRANSLATED, shape)] = None


def parse_mark(raw: Raw, notices: dict[Notice, None]) -> CacheMark | None:
    """Parse `cache_control`, which clients of Anthropic models send in this dialect, too.

    The notice is for upstreams of this dialect, if the request is rendered again for one.
    """
    if (text := value_or_none(raw)) is None:
        return None
    try:
        mark = _marks.decode(text)
    except msgspec.DecodeError:
        notices[Notice(NoticeCode.FIELD_DROPPED, "cache_control that cannot be read")] = None
        return None
    notices[CACHE_DROPPED] = None
    return mark


def parse_content(content: Content, path: str, notices: dict[Notice, None]) -> Iterator[Part]:
    """Parse the parts of a content; raises ClientError."""
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    if content == []:
        note_translation(notices, "content: []")  # OpenAI rejects it; Cursor sends it with calls
    for index, raw in enumerate(content or ()):
        place = f"{path}.{index}"
        part = _parse_part(raw, place, notices)
        if part is None:
            kind = parse_json(_kinds, raw, path=place).type
            notices[Notice(NoticeCode.CONTENT_UNSUPPORTED, f"{kind[:40]} part")] = None
        elif type(part) is not Text or part.text:
            yield part


def parse_result(
    content: Content, path: str, notices: dict[Notice, None]
) -> Iterator[Text | Image | Document]:
    """Parse the content of a tool result: text, images and documents."""
    for part in parse_content(content, path, notices):
        if isinstance(part, Text | Image | Document):
            yield part
        else:
            kind = type(part).__name__.lower()
            notices[Notice(NoticeCode.CONTENT_UNSUPPORTED, f"{kind} in a result")] = None


def _parse_part(raw: Raw, path: str, notices: dict[Notice, None]) -> Part | None:
    try:
        wire = _parts.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        if parse_json(_kinds, raw, path=path).type not in _KNOWN_TYPES:
            return None
        wire = parse_json(_parts, raw, path=path)
    part = _part(wire, path, notices)
    if part is not None and not isinstance(wire, _UNMARKED):
        if wire.cache_control and (mark := parse_mark(wire.cache_control, notices)):
            return replace(part, cache=mark)
    return part


def _part(part: Any, path: str, notices: dict[Notice, None]) -> Part | None:
    if isinstance(part, _FOREIGN_PARTS):
        note_translation(notices, f"{part.__struct_config__.tag} part")
    match part:
        case _Text(text=text) | _Refusal(refusal=text):
            return Text(text)
        case _Image(image_url=url) | _InputImage(image_url=_Url() | str() as url):
            if isinstance(url, str):
                note_translation(notices, "image_url as a string")
            return _image(url if isinstance(url, str) else url.url)
        case _FilePart(file=file) | (_InputFile() as file):
            source = file.file_data or file.file_url
            return _document(source, file.filename) if source else None
        case _ImageBlock(source=source):
            return image_from_source(source)
        case _DocumentBlock(source=source, title=title):
            return document_from_source(source, title, path)
        case _Thinking(thinking=thinking, signature=signature):
            return Reasoning(thinking or "", signature or None)
        case _Redacted(data=data):
            return RedactedReasoning(data)
        case _ToolUse():
            arguments = require_object(value_or_none(part.input) or b"{}", path=f"{path}.input")
            return ToolCall(part.id, part.name, arguments)
        case _ToolResult():
            result = parse_result(part.content, f"{path}.content", notices)
            return ToolResult(part.tool_use_id, tuple(result), bool(part.is_error))
    return None


def _document(source: str, title: str | None) -> Document:
    if source.startswith(("http://", "https://")):
        return Document(url=source, title=title)
    media_type, data = "application/pdf", source
    if source.startswith("data:"):
        media_type, data = _data_url(source, media_type)
    if media_type.startswith("text/"):
        with suppress(ValueError):  # not base64 text: passed on unchanged
            return Document(text=base64.b64decode(data).decode(), title=title)
    return Document(media_type=media_type, data=data, title=title)


def _image(url: str) -> Image:
    if not url.startswith("data:"):
        return Image(url=url)
    media_type, data = _data_url(url, "image/png")
    return Image(media_type=media_type, data=data)


def _data_url(url: str, default: str) -> tuple[str, str]:
    head, _, data = url.partition(",")
    return head.removeprefix("data:").partition(";")[0] or default, data
