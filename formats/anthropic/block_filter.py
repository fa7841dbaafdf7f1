"""A client's own messages without what an upstream of the same dialect refuses.

Blocks that stay are the client's own bytes; where nothing goes, so is all that is around them.
"""

from typing import Any

import msgspec
from msgspec import Raw

from formats.anthropic.content_parser import KIND_OF_PLAIN, PlainMessage, plain_blocks
from formats.conversation import Target
from formats.events import Notice, NoticeCode
from formats.json_codec import ABSENT, value_or_none
from formats.request_errors import BILLING

# Anthropic's signatures have hundreds of characters; shorter ones were made up on the way.
_SIGNATURE_CHARS = 100
UNSIGNED = "no signature of Anthropic's"
REFUSED = "the upstream refused it"

_plain_messages: "msgspec.json.Decoder[list[Any]]" = msgspec.json.Decoder(list[PlainMessage])
_objects = msgspec.json.Decoder(list[Raw])
_message = msgspec.json.Decoder(dict[str, Raw])
_contents = msgspec.json.Decoder(str | list[Raw] | None)


class Scrub:
    """Takes out of a client's own blocks what the target refuses, and leaves the rest verbatim."""

    def __init__(self, target: Target, notices: list[Notice]) -> None:
        self._target = target
        self._notices = notices

    def messages(self, messages: Raw) -> Raw | list[object]:
        """The messages themselves, or what is left of them."""
        try:
            plain = _plain_messages.decode(messages)
        except (msgspec.DecodeError, RecursionError):
            plain = None
        if plain and all(self._leaves(message.content) for message in plain):
            return messages
        out: list[object] = []
        found = _objects.decode(messages)
        for raw in found:
            message = _message.decode(raw)
            before = message.get("content", ABSENT)
            after = self.content(before)
            if after is before:
                out.append(raw)
            elif after:
                out.append(message | {"content": after})
        return messages if len(out) == len(found) and all(map(_is, out, found)) else out

    def _leaves(self, content: str | list[Any] | None) -> bool:
        """True if nothing goes of a content that was decoded into plain blocks."""
        if not isinstance(content, list):
            return content is not None and not _is_blank(content)
        target = self._target
        for block in content:
            match KIND_OF_PLAIN[type(block)]:
                case "text":
                    text = block.text
                    if _is_blank(text) or (not target.is_anthropic and text.startswith(BILLING)):
                        return False
                case "tool_result":
                    if block.content is not None and not self._leaves(block.content):
                        return False
                case "thinking" if target.is_anthropic and not is_genuine(block.signature):
                    return False
                case "thinking" | "redacted_thinking" if not target.takes_thinking:
                    return False
        return True

    def content(self, content: Raw) -> object:
        """The content itself, what is left of its blocks, or nothing."""
        plain = plain_blocks(content)
        if plain and self._leaves([*plain]):
            return content
        value = _contents.decode(value_or_none(content) or b"null")
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
            case "thinking" | "redacted_thinking" if not self._target.takes_thinking:
                self._notices.append(Notice(NoticeCode.REASONING_DROPPED, REFUSED))
                return None
            case "thinking" if self._target.is_anthropic and not is_genuine(
                _string(block, "signature")
            ):
                self._notices.append(Notice(NoticeCode.REASONING_DROPPED, UNSIGNED))
                return None
            case "text" if not _string(block, "text").strip():
                self._notices.append(Notice(NoticeCode.BLANK_TEXT_DROPPED))
                return None
            case "text" if not self._target.is_anthropic:
                return None if _string(block, "text").startswith(BILLING) else raw
            case "tool_result" if value_or_none(before := block.get("content", ABSENT)):
                after = self.content(before)
                if after is not before:
                    return block | {"content": after or []}
        return raw


def _string(block: dict[str, Raw], name: str) -> str:
    raw = bytes(block.get(name, b""))
    return str(msgspec.json.decode(raw)) if raw.startswith(b'"') else ""


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _is(one: object, other: object) -> bool:
    return one is other


def is_genuine(signature: str | None) -> bool:
    return signature is not None and len(signature) >= _SIGNATURE_CHARS
