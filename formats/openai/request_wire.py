"""JSON structs of a Chat Completions request, with shapes that clients of other APIs mix into it.

Content stays JSON text here: `content_parser` and `responses_input` decode each part by its type,
so that an unknown type does not fail the request.
"""

from typing import Any, TypeAlias

from msgspec import Raw, Struct

from formats.json_codec import ABSENT
from formats.openai.response_wire import ReasoningDetail

Content: TypeAlias = str | list[Raw] | None


class WireFunction(Struct):
    name: str | None = None
    description: str | None = None
    parameters: Raw = ABSENT
    strict: bool | None = None
    arguments: str | dict[str, Raw] | None = None
    cache_control: Raw = ABSENT


class WireCustom(Struct):
    """A custom tool, or a call of one."""

    name: str | None = None
    description: str | None = None
    format: Raw = ABSENT
    input: str | None = None


class WireCall(Struct):
    id: str | None = None
    function: WireFunction | None = None
    custom: WireCustom | None = None


class WireMessage(Struct):
    role: str
    content: Content = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: WireFunction | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    cache_control: Raw = ABSENT


class WireTool(WireFunction):
    """A tool in the shape of any API. Responses has the fields of a function, or of a custom tool,
    next to the type."""

    type: str | None = None
    function: WireFunction | None = None
    input_schema: Raw = ABSENT
    custom: WireCustom | None = None
    format: Raw = ABSENT


class WireGrammar(Struct):
    """The format of a custom tool; in Chat Completions the grammar is one level deeper."""

    syntax: str = ""
    definition: str = ""
    grammar: "WireGrammar | None" = None


class WireNamed(Struct):
    type: str | None = None
    name: str | None = None
    function: WireFunction | None = None
    custom: WireCustom | None = None


class WireAllowed(Struct):
    mode: str | None = None
    tools: list[WireNamed] | None = None


class WireToolChoice(WireNamed):
    mode: str | None = None
    tools: list[WireNamed] | None = None
    allowed_tools: WireAllowed | None = None
    disable_parallel_tool_use: bool | None = None


class StreamOptions(Struct):
    include_usage: bool | None = None


class JsonSchema(Struct):
    schema: Raw = ABSENT


class ResponseFormat(Struct):
    type: str
    json_schema: JsonSchema | None = None


class WireReasoning(Struct):
    enabled: bool | None = None
    effort: str | None = None
    max_tokens: int | None = None


class WireRequest(Struct):
    """All fields except the large ones: messages and tools."""

    model: str
    tool_choice: str | WireToolChoice | None = None
    function_call: str | WireNamed | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: str | list[str] | None = None
    user: str | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    reasoning: WireReasoning | None = None
    thinking: Any = None
    """Sent by clients of Anthropic, Moonshot, DeepSeek and Z.AI."""
