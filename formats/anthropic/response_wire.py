"""JSON structs of Anthropic answers. Upstreams omit any field, so all are optional.

The complete structs have what strict clients require of a whole message.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from formats.events import Usage
from formats.json_codec import ABSENT, count_or_none


class WireUsage(Struct):
    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None

    def counts(self) -> Usage:
        return Usage(
            input=count_or_none(self.input_tokens),
            output=count_or_none(self.output_tokens),
            cache_read=count_or_none(self.cache_read_input_tokens),
            cache_creation=count_or_none(self.cache_creation_input_tokens),
        )


class Block(Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = ABSENT


class Delta(Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class WireMessage(Struct):
    type: str | None = None
    id: str | None = None
    model: str | None = None
    content: list[Block] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: WireUsage | None = None


class WireError(Struct):
    type: Any = None
    message: Any = None


class WireEvent(Struct):
    type: str | None = None
    index: int | None = None
    message: WireMessage | None = None
    content_block: Block | None = None
    delta: Delta | None = None
    usage: WireUsage | None = None
    error: WireError | str | None = None


class WholeMessage(WireMessage):
    error: WireError | str | None = None


_NonEmpty = Annotated[str, Meta(min_length=1)]


class CompleteBlock(Block):
    def __post_init__(self) -> None:
        if not self._is_complete():
            raise ValueError("a field is missing")

    def _is_complete(self) -> bool:
        match self.type:
            case "text":
                return self.text is not None
            case "thinking":
                return self.thinking is not None and self.signature is not None
            case "redacted_thinking":
                return self.data is not None
            case "tool_use":
                return bool(self.id and self.name) and bytes(self.input).startswith(b"{")
        return self.type is not None


class CompleteUsage(Struct):
    input_tokens: int
    output_tokens: int


class CompleteMessage(Struct):
    id: _NonEmpty
    type: Literal["message"]
    role: Literal["assistant"]
    model: _NonEmpty
    content: list[CompleteBlock]
    stop_reason: _NonEmpty
    usage: CompleteUsage
