"""The request of Chat Completions, with the shapes that clients of other dialects mix into it."""

from msgspec import Raw, Struct

from formats.codec import ABSENT
from formats.openai.chunks import ReasoningDetail


class WireUrl(Struct):
    url: str


class WireFile(Struct):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class WirePart(Struct):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: WireUrl | str | None = None
    file: WireFile | None = None


class WireFunction(Struct):
    name: str | None = None
    description: str | None = None
    parameters: Raw = ABSENT
    strict: bool | None = None
    arguments: str | dict[str, Raw] | None = None


class WireCall(Struct):
    id: str | None = None
    function: WireFunction | None = None


class WireMessage(Struct):
    role: str
    content: str | list[WirePart] | None = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: WireFunction | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[ReasoningDetail] | None = None


class WireTool(WireFunction):
    type: str | None = None
    function: WireFunction | None = None
    input_schema: Raw = ABSENT


class WireToolChoice(Struct):
    type: str | None = None
    name: str | None = None
    function: WireFunction | None = None


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
    model: str
    messages: list[WireMessage]
    tools: list[WireTool] | None = None
    functions: list[WireFunction] | None = None
    tool_choice: str | WireToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: str | list[str] | None = None
    user: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    reasoning: WireReasoning | None = None
