"""A client's own messages without what an upstream of the same dialect refuses.

Blocks that stay are the client's own bytes; where nothing goes, so is all that is around them.
"""

import msgspec
from msgspec import Raw

from formats.codec import ABSENT, given
from formats.conversation import Target
from formats.events import Notice, NoticeCode
from formats.request import BILLING

# Anthropic's signatures have hundreds of characters; shorter ones were made up on the way.
_SIGNATURE_CHARS = 100
UNSIGNED = "no signature of Anthropic's"
REFUSED = "the upstream refused it"

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


def is_genuine(signature: str | None) -> bool:
    return signature is not None and len(signature) >= _SIGNATURE_CHARS
