"""JSON structs of Anthropic answers. Upstreams omit any field, so all are optional."""

from typing import Any

from msgspec import Raw, Struct

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
