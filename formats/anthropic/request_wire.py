"""JSON structs of an Anthropic Messages request: the fields that other upstreams support, too."""

from typing import Annotated

from msgspec import Meta, Raw, Struct

from formats.json_codec import ABSENT
from formats.media_sources import Source


class TextBlock(Struct):
    text: str


class ThinkingBlock(Struct):
    thinking: str | None = None
    signature: str | None = None


class RedactedBlock(Struct):
    data: str


class ToolUseBlock(Struct):
    id: str
    name: str
    input: Raw = ABSENT


class ToolResultBlock(Struct):
    tool_use_id: str
    content: Raw = ABSENT
    is_error: bool | None = None


class MediaBlock(Struct):
    source: Source
    title: str | None = None


class SearchResultBlock(Struct):
    content: list[TextBlock]
    title: str | None = None


class ReferenceBlock(Struct):
    tool_name: str


class WireTool(Struct):
    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: Raw = ABSENT
    strict: bool | None = None
    defer_loading: bool | None = None


class PlainTool(WireTool, forbid_unknown_fields=True):
    """A tool with known fields only."""


class WireToolChoice(Struct):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Metadata(Struct):
    user_id: str | None = None


class Thinking(Struct):
    type: str
    budget_tokens: int | None = None
    display: str | None = None


class OutputFormat(Struct):
    type: str = ""
    schema: Raw = ABSENT


class OutputConfig(Struct):
    effort: str | None = None
    format: OutputFormat | None = None


class WireRequest(Struct):
    """All fields except the large ones: `system`, `messages` and `tools`."""

    model: str
    tool_choice: WireToolChoice | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    metadata: Metadata | None = None
    stream: bool | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    """The older name of `output_config.format`, of the beta `structured-outputs-2025-11-13`."""
