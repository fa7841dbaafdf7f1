"""The request of Anthropic Messages: every field that means something to another upstream."""

from typing import Any

from msgspec import Raw, Struct

from formats.codec import ABSENT


class Source(Struct):
    type: str = ""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    content: Any = None


class WireBlock(Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = ABSENT
    tool_use_id: str | None = None
    content: Raw = ABSENT
    is_error: bool | None = None
    source: Source | None = None
    title: str | None = None
    tool_name: str | None = None
    cache_control: Raw = ABSENT


class WireMessage(Struct):
    role: str
    content: str | list[WireBlock] | None = None


class WireTool(Struct):
    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: Raw = ABSENT
    strict: bool | None = None
    defer_loading: bool | None = None
    cache_control: Raw = ABSENT


class WireToolChoice(Struct):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Metadata(Struct):
    user_id: str | None = None


class Thinking(Struct):
    type: str
    budget_tokens: int | None = None


class OutputFormat(Struct):
    type: str = ""
    schema: Raw = ABSENT


class OutputConfig(Struct):
    effort: str | None = None
    format: OutputFormat | None = None


class WireRequest(Struct):
    model: str
    messages: list[WireMessage]
    system: str | list[WireBlock] | None = None
    tools: list[WireTool] | None = None
    tool_choice: WireToolChoice | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    metadata: Metadata | None = None
    stream: bool | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    thread: Raw = ABSENT
