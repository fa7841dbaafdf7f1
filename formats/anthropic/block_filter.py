"""Removes blocks from a client's messages that an upstream of the same dialect would reject.

These are blank text, reasoning that the upstream cannot verify, and Claude Code's billing line. The
blocks that stay keep their bytes, and so do messages from which nothing is removed.
"""

from operator import is_
from typing import Any

import msgspec
from msgspec import Raw

from formats.anthropic.content_parser import KIND_OF_PLAIN, PlainMessage, plain_blocks
from formats.conversation import Target
from formats.events import Notice, NoticeCode
from formats.json_codec import ABSENT, value_or_none
from formats.target_limits import BILLING

# Anthropic's signatures have hundreds of characters; shorter ones are made up by relays.
_SIGNATURE_CHARS = 100
UNSIGNED = "not signed by Anthropic"
REJECTED = "the upstream rejected it"

_plain_messages: "msgspec.json.Decoder[list[Any]]" = msgspec.json.Decoder(list[PlainMessage])
_objects = msgspec.json.Decoder(list[Raw])
_message = msgspec.json.Decoder(dict[str, Raw])
_contents = msgspec.json.Decoder(str | list[Raw] | None)


class BlockFilter:
    def __init__(self, target: Target, notices: list[Notice]) -> None:
        self._target = target
        self._notices = notices

    def messages(self, messages: Raw) -> Raw | list[object]:
        """Return the same object if nothing is removed."""
        try:
            plain = _plain_messages.decode(messages)
        except (msgspec.DecodeError, RecursionError):
            plain = None
        if plain and all(self._keeps_all(message.content) for message in plain):
            return messages
        out: list[object] = []
        items = _objects.decode(messages)
        for raw in items:
            message = _message.decode(raw)
            before = message.get("content", ABSENT)
            after = self.content(before)
            if after is before:
                out.append(raw)
            elif after:
                out.append(message | {"content": after})
        return messages if len(out) == len(items) and all(map(is_, out, items)) else out

    def _keeps_all(self, content: str | list[Any] | None) -> bool:
        """True if nothing is removed; `content` has plain blocks only."""
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
                    if block.content is not None and not self._keeps_all(block.content):
                        return False
                case "thinking" if target.is_anthropic and not is_genuine(block.signature):
                    return False
                case "thinking" | "redacted_thinking" if not target.takes_thinking:
                    return False
        return True

    def content(self, content: Raw) -> object:
        """Return the same object if nothing is removed, else the remaining blocks or None."""
        plain = plain_blocks(content)
        if plain and self._keeps_all([*plain]):
            return content
        value = _contents.decode(value_or_none(content) or b"null")
        if isinstance(value, str):
            if value.strip():
                return content
            self._notices.append(Notice(NoticeCode.BLANK_TEXT_DROPPED))
            return None
        kept = [block for raw in value or () if (block := self._block(raw)) is not None]
        same = value is not None and len(kept) == len(value) and all(map(is_, kept, value))
        return content if same else kept

    def _block(self, raw: Raw) -> object | None:
        block = _message.decode(raw)
        match _string(block, "type"):
            case "thinking" | "redacted_thinking" if not self._target.takes_thinking:
                self._notices.append(Notice(NoticeCode.REASONING_DROPPED, REJECTED))
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


def is_genuine(signature: str | None) -> bool:
    return signature is not None and len(signature) >= _SIGNATURE_CHARS
