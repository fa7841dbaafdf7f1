"""Content blocks of Anthropic Messages → parts.

A block of a type that no other upstream has is None; fields that none has are named in the notices.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

import msgspec
from msgspec import Raw, Struct

from formats.anthropic.wire import (
    MediaBlock,
    RedactedBlock,
    ReferenceBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from formats.codec import ABSENT, given
from formats.conversation import (
    Document,
    Image,
    Part,
    Reasoning,
    RedactedReasoning,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.request import parse_json, require_object
from formats.sources import document_of, image_of

_contents = msgspec.json.Decoder(str | list[Raw] | None)
_fields = msgspec.json.Decoder(dict[str, Raw])
_types = msgspec.json.Decoder(str)

_NULL = Raw(b"null")
_BLOCKS: dict[str, type[Struct]] = {
    "text": TextBlock,
    "image": MediaBlock,
    "document": MediaBlock,
    "thinking": ThinkingBlock,
    "redacted_thinking": RedactedBlock,
    "tool_use": ToolUseBlock,
    "tool_result": ToolResultBlock,
    "search_result": SearchResultBlock,
    "tool_reference": ReferenceBlock,
}
_DECODERS: dict[str, "msgspec.json.Decoder[Any]"] = {
    name: msgspec.json.Decoder(block) for name, block in _BLOCKS.items()
}
# The same blocks with nothing in them that is not known: nearly all are such, and a whole content
# of them is decoded in one go.
_PLAIN = {
    msgspec.defstruct(
        f"Plain{name}",
        [("cache_control", Raw, ABSENT)],
        bases=(block,),
        tag_field="type",
        tag=name,
        forbid_unknown_fields=True,
    ): name
    for name, block in _BLOCKS.items()
}
_AnyPlain: Any = reduce(or_, _PLAIN)
_plain_contents: "msgspec.json.Decoder[str | list[Any] | None]" = msgspec.json.Decoder(
    str | list[_AnyPlain] | None
)
_KINDS = {f'"{name}"'.encode(): name for name in _BLOCKS}  # by their JSON text
_KNOWN = {name: {"type", *block.__struct_fields__} for name, block in _BLOCKS.items()}


class BlockParser:
    """Reads the blocks of one request, whose tools a block may refer to."""

    def __init__(self, tools: dict[str, Tool]) -> None:
        self.notices: dict[Notice, None] = {}
        self._tools = tools

    def drop(self, code: NoticeCode, detail: str) -> None:
        """Take note, once, of what another dialect has no place for."""
        self.notices[Notice(code, detail)] = None

    def parts(self, content: Raw, role: Role, path: str) -> Iterator[Part]:
        """The parts of a message's content."""
        for kind, block, place in self._blocks(content, path):
            if kind in ("tool_use", "tool_result") and _SPEAKERS[kind] is not role:
                raise ClientError(f"{kind} is not allowed in a {role} message", path=place)
            part = self._part(kind, block, place)
            if part is None:
                self.drop(NoticeCode.CONTENT_UNSUPPORTED, f"{kind} block")
            elif part != Text(""):
                yield part

    def texts(self, content: Raw, path: str) -> Iterator[Text]:
        """The parts of a system prompt."""
        for part in self.parts(content, Role.SYSTEM, path):
            if isinstance(part, Text):
                yield part
            else:
                self.drop(NoticeCode.CONTENT_UNSUPPORTED, f"{type(part).__name__} in {path}")

    def _blocks(self, content: Raw, path: str) -> Iterator[tuple[str, Any, str]]:
        """The kind of each block, the block, and its place."""
        try:
            value = _plain_contents.decode(content or _NULL)
        except (msgspec.DecodeError, RecursionError):
            yield from self._odd_blocks(content, path)
            return
        if isinstance(value, str):
            yield "text", TextBlock(value), path
            return
        for index, block in enumerate(value or ()):
            if block.cache_control:
                self.drop(NoticeCode.FIELD_DROPPED, "content[].cache_control")
            yield _PLAIN[type(block)], block, f"{path}.{index}"

    def _odd_blocks(self, content: Raw, path: str) -> Iterator[tuple[str, Any, str]]:
        """The same, of a content with something in it that is not known, or not right."""
        value = parse_json(_contents, content or _NULL, path=path)
        if isinstance(value, str):
            yield "text", TextBlock(value), path
            return
        for index, raw in enumerate(value or ()):
            place = f"{path}.{index}"
            fields = parse_json(_fields, raw, path=place)
            kind = _KINDS.get(bytes(fields.get("type", _NULL)))
            if kind is None:
                named = parse_json(_types, fields.get("type", _NULL), path=f"{place}.type")
                yield named, None, place
                continue
            if not fields.keys() <= _KNOWN[kind]:
                for name in fields.keys() - _KNOWN[kind]:
                    self.drop(NoticeCode.FIELD_DROPPED, f"content[].{name}")
            yield kind, parse_json(_DECODERS[kind], raw, path=place), place

    def _part(self, kind: str, block: Any, path: str) -> Part | None:
        match block:
            case TextBlock(text=text):
                return Text(text)
            case ThinkingBlock(thinking=thinking, signature=signature):
                return Reasoning(thinking or "", signature or None)
            case RedactedBlock(data=data):
                return RedactedReasoning(data)
            case ToolUseBlock():
                arguments = require_object(given(block.input) or b"{}", path=f"{path}.input")
                return ToolCall(block.id, block.name, arguments)
            case ToolResultBlock():
                content = tuple(self._result(block.content, f"{path}.content"))
                return ToolResult(block.tool_use_id, content, bool(block.is_error))
            case ReferenceBlock(tool_name=name):
                return Text(self._reference(name))
            case SearchResultBlock():
                found = "\n".join(text.text for text in block.content)
                return Document(text=found, title=block.title)
            case MediaBlock():
                if kind == "image":
                    return image_of(block.source)
                return document_of(block.source, block.title, path)
        return None

    def _result(self, content: Raw, path: str) -> Iterator[Text | Image | Document]:
        for kind, block, place in self._blocks(content, path):
            part = self._part(kind, block, place)
            if isinstance(part, Text | Image | Document):
                if part != Text(""):
                    yield part
            else:
                self.drop(NoticeCode.CONTENT_UNSUPPORTED, f"{kind} block in a result")
                yield Text(f"[{kind}: this content cannot be shown]")

    def _reference(self, name: str) -> str:
        """A tool that a search found, spelled out: only Anthropic's API expands the reference."""
        tool = self._tools.get(name)
        if tool is None:
            return f"The tool {name} is available."
        described = f": {tool.description}" if tool.description else "."
        return f"The tool {name} is available{described}\nIts arguments: {tool.schema.decode()}"


_SPEAKERS = {"tool_use": Role.ASSISTANT, "tool_result": Role.USER}
