"""Parses content blocks of Anthropic Messages into parts of a message.

Blocks and fields that upstreams of other dialects do not support are left out, with a notice.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct

from formats.anthropic.request_wire import (
    MediaBlock,
    RedactedBlock,
    ReferenceBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
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
from formats.json_codec import ABSENT, value_or_none
from formats.media_sources import Source, document_from_source, image_from_source
from formats.request_errors import parse_json, require_object

Content: TypeAlias = Raw | str | list[Any] | None
"""Content as JSON text, or decoded into plain blocks."""

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
# Types that a tool result may contain.
_RESULT_TYPES = ("text", "image", "document", "search_result", "tool_reference")
_DECODERS: dict[str, "msgspec.json.Decoder[Any]"] = {
    name: msgspec.json.Decoder(block) for name, block in _BLOCKS.items()
}


def _plain(name: str, block: type[Struct], *fields: Any) -> type[Struct]:
    """The same block, but with known fields only."""
    return msgspec.defstruct(
        f"Plain{name}",
        [("cache_control", Raw, ABSENT), *fields],
        bases=(block,),
        tag_field="type",
        tag=name,
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )


class _PlainSource(Source, forbid_unknown_fields=True):
    pass


class _SearchText(TextBlock, tag_field="type", tag="text", forbid_unknown_fields=True):
    pass


# A plain block has known fields only. Nearly all blocks are plain, and a whole history of them is
# decoded in one pass, which also checks everything in them except Raw fields.
_REFINED: dict[str, tuple[str, Any]] = {
    "image": ("source", _PlainSource),
    "document": ("source", _PlainSource),
    "search_result": ("content", list[_SearchText]),
}
_PLAIN = {
    name: _plain(name, block, *([_REFINED[name]] if name in _REFINED else ()))
    for name, block in _BLOCKS.items()
}
_PlainText: Any = _PLAIN["text"]
_PlainResultBlock: Any = reduce(or_, (_PLAIN[name] for name in _RESULT_TYPES))
_PLAIN["tool_result"] = _plain(
    "tool_result", ToolResultBlock, ("content", str | list[_PlainResultBlock] | None, None)
)
_PlainContent: Any = str | list[reduce(or_, _PLAIN.values())] | None  # type: ignore[misc]
_plain_contents: "msgspec.json.Decoder[str | list[Any] | None]" = msgspec.json.Decoder(
    _PlainContent
)
KIND_OF_PLAIN = {block: name for name, block in _PLAIN.items()}
PlainMessage: Any = msgspec.defstruct(
    "PlainMessage",
    [("role", Role), ("content", _PlainContent, None)],
    forbid_unknown_fields=True,
    gc=False,
)
"""A message with known fields and plain blocks only."""
_KINDS = {f'"{name}"'.encode(): name for name in _BLOCKS}  # by JSON text
_KNOWN = {name: {"type", *block.__struct_fields__} for name, block in _BLOCKS.items()}


class BlockParser:
    """Parses the blocks of one request; a block may refer to one of its tools."""

    def __init__(self, tools: Sequence[Tool], notices: Iterable[Notice] = ()) -> None:
        self.notices: dict[Notice, None] = dict.fromkeys(notices)
        self.unread: list[bytes] = []
        """JSON texts in the blocks that were not decoded, for the check of their complexity."""
        self._tools = tools
        self._by_name: dict[str, Tool] | None = None  # made when a block refers to one

    def drop(self, code: NoticeCode, detail: str) -> None:
        """Add a notice about something that is left out, once."""
        self.notices[Notice(code, detail)] = None

    def parts(self, content: Content, role: Role | None, path: str) -> list[Part]:
        """Parse the content of a message, or of a tool result, which has no role."""
        parts: list[Part] = []
        blocks = content if type(content) is list else plain_blocks(content)
        if blocks is None:
            self.unread.append(bytes(cast(Raw, content)))
            for kind, block, place in self._unusual_blocks(cast(Raw, content), path):
                self._add(parts, kind, block, role, place)
            return parts
        for index, block in enumerate(blocks):
            if block.cache_control:
                self.unread.append(bytes(block.cache_control))
                self.drop(NoticeCode.FIELD_DROPPED, "content[].cache_control")
            if type(block) is _PlainText:
                if block.text:
                    parts.append(Text(block.text))
            else:
                self._add(parts, KIND_OF_PLAIN[type(block)], block, role, f"{path}.{index}")
        return parts

    def texts(self, content: Raw, path: str) -> list[Text]:
        """Parse a system prompt."""
        texts: list[Text] = []
        for part in self.parts(content, Role.SYSTEM, path):
            if type(part) is Text:
                texts.append(part)
            else:
                self.drop(NoticeCode.CONTENT_UNSUPPORTED, f"{type(part).__name__} in {path}")
        return texts

    def _unusual_blocks(self, content: Raw, path: str) -> Iterator[tuple[str, Any, str]]:
        """Kind, block and path of blocks with unknown fields or errors."""
        value = parse_json(_contents, content or _NULL, path=path)
        for index, raw in enumerate(value or ()):
            place = f"{path}.{index}"
            fields = parse_json(_fields, raw, path=place)
            kind = _KINDS.get(bytes(fields.get("type", _NULL)))
            if kind is None:
                unknown = parse_json(_types, fields.get("type", _NULL), path=f"{place}.type")
                yield unknown, None, place
                continue
            if not fields.keys() <= _KNOWN[kind]:
                for name in fields.keys() - _KNOWN[kind]:
                    self.drop(NoticeCode.FIELD_DROPPED, f"content[].{name}")
            yield kind, parse_json(_DECODERS[kind], raw, path=place), place

    def _add(self, parts: list[Part], kind: str, block: Any, role: Role | None, path: str) -> None:
        if role is not None and _ROLES.get(kind, role) is not role:
            raise ClientError(f"{kind} is not allowed in a {role} message", path=path)
        part = self._part(kind, block, path)
        if role is None and not isinstance(part, Text | Image | Document):
            self.drop(NoticeCode.CONTENT_UNSUPPORTED, f"{kind} block in a result")
            parts.append(Text(f"[{kind}: this content cannot be shown]"))
        elif part is None:
            self.drop(NoticeCode.CONTENT_UNSUPPORTED, f"{kind} block")
        elif type(part) is not Text or part.text:
            parts.append(part)

    def _part(self, kind: str, block: Any, path: str) -> Part | None:
        match kind:
            case "text":
                return Text(block.text)
            case "tool_use":
                arguments = require_object(
                    value_or_none(block.input) or b"{}", path=f"{path}.input"
                )
                self.unread.append(arguments)
                return ToolCall(block.id, block.name, arguments)
            case "tool_result":
                content: Any = tuple(self.parts(block.content, None, f"{path}.content"))
                return ToolResult(block.tool_use_id, content, bool(block.is_error))
            case "thinking":
                return Reasoning(block.thinking or "", block.signature or None)
            case "redacted_thinking":
                return RedactedReasoning(block.data)
            case "tool_reference":
                return Text(self._reference(block.tool_name))
            case "search_result":
                text = "\n".join(item.text for item in block.content)
                return Document(text=text, title=block.title)
            case "image":
                return image_from_source(block.source)
            case "document":
                self.unread.append(bytes(block.source.content))
                return document_from_source(block.source, block.title, path)
        return None

    def _reference(self, name: str) -> str:
        """Describe a tool that a search found: only Anthropic's API expands the reference."""
        if self._by_name is None:
            self._by_name = {tool.name: tool for tool in self._tools}
        tool = self._by_name.get(name)
        if tool is None:
            return f"The tool {name} is available."
        description = f": {tool.description}" if tool.description else "."
        return f"The tool {name} is available{description}\nIts arguments: {tool.schema.decode()}"


def plain_blocks(content: Content) -> Sequence[Any] | None:
    """The blocks of a content if all are plain, else None."""
    if isinstance(content, Raw):
        try:
            content = _plain_contents.decode(content or _NULL)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
    return (_PlainText(content),) if isinstance(content, str) else content or ()


_ROLES = {"tool_use": Role.ASSISTANT, "tool_result": Role.USER}
