"""One request, in the richer (Anthropic-like) shape that both dialects parse to and render from.

What a target dialect cannot carry is named in a notice by its renderer, never lost in silence.
JSON that only passes through (schemas, arguments) stays the bytes that the client sent, so that
numbers keep their spelling and equal prefixes render to equal bytes.

A value that is made for each message cannot be part of a cycle: no garbage collector follows it.
"""

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Raw, Struct

from formats.events import Notice


class Text(Struct, frozen=True, gc=False):
    text: str


class Image(Struct, frozen=True, gc=False):
    """Either `data` (base64) with its media type, or a `url`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Document(Struct, frozen=True, gc=False):
    """Either `data` (base64), a `url`, or plain `text`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    text: str | None = None
    title: str | None = None


class Reasoning(Struct, frozen=True, gc=False):
    text: str
    signature: str | None = None


class RedactedReasoning(Struct, frozen=True, gc=False):
    data: str


class ToolCall(Struct, frozen=True, gc=False):
    id: str
    name: str
    arguments: bytes
    """JSON text of an object."""
    is_custom: bool = False
    """Of an answer's call: whether the client's tool takes text, the string `input`."""


class ToolResult(Struct, frozen=True, gc=False):
    call_id: str
    content: "tuple[Text | Image | Document, ...]" = ()
    is_error: bool = False


Part: TypeAlias = Text | Image | Document | Reasoning | RedactedReasoning | ToolCall | ToolResult


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(Struct, frozen=True, gc=False):
    role: Role
    parts: tuple[Part, ...]
    path: str = ""
    """Where the client's JSON has it, for messages about it."""


class Tool(Struct, frozen=True, gc=False, cache_hash=True):
    name: str
    description: str | None
    schema: bytes
    """JSON text of the JSON Schema of its arguments."""
    strict: bool | None = None
    is_custom: bool = False
    """Whether a function with the one string `input` stands in for a tool that takes text."""


class ToolChoice(Struct, frozen=True):
    mode: Literal["auto", "any", "none", "tool"] = "auto"
    name: str | None = None
    parallel: bool = True


class Sampling(Struct, frozen=True):
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    user: str | None = None


class ReasoningMode(Struct, frozen=True):
    """How much the client wants the model to think; None is not said."""

    enabled: bool | None = None
    budget: int | None = None
    effort: str | None = None


class ServerTool(Struct, frozen=True):
    """A tool that only the client's own vendor can run, `web_search_20250305` for one."""

    type: str
    name: str


class Conversation(Struct, frozen=True):
    model: str
    messages: tuple[Message, ...]
    system: tuple[Text, ...] = ()
    tools: tuple[Tool, ...] = ()
    server_tools: tuple[ServerTool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    sampling: Sampling = Sampling()
    reasoning: ReasoningMode = ReasoningMode()
    output_schema: bytes | None = None
    """JSON text of the schema that the answer must follow."""
    stream: bool = False
    include_usage: bool = True
    """An OpenAI client gets its usage chunk only when it asked for one."""
    dialect: str = ""
    source: dict[str, Raw] = {}
    """The client's own top-level fields, for an upstream of the same dialect, and by its names."""
    body: bytes = b""
    """The request as the client wrote it, for the same."""
    notices: tuple[Notice, ...] = ()
    """What parsing found that an upstream of another dialect cannot be told."""

    def call_ids(self) -> frozenset[str]:
        """The ids of every call in the history."""
        return frozenset(
            part.id
            for message in self.messages
            for part in message.parts
            if isinstance(part, ToolCall)
        )

    def max_calls(self) -> int | None:
        """How many calls the client allows in the answer; None is any number."""
        if self.tool_choice.mode == "none":
            return 0
        return None if self.tool_choice.parallel else 1


class Rendered(Struct, frozen=True):
    """A request as the upstream gets it."""

    body: bytes
    notices: tuple[Notice, ...] = ()
    aliases: dict[str, str] = {}
    """Tool names that the upstream was told, where they are not the client's."""


class Target(Struct, frozen=True):
    """What the upstream and the model behind it can take; a route fills it from the database."""

    model: str | None = None
    """The upstream's name for the model; None keeps the client's."""
    native_ids: bool = False
    """Whether calls are named `functions.NAME:N`, as Kimi was trained to see them."""
    is_anthropic: bool = True
    """Whether an upstream of Anthropic's dialect is Anthropic itself, which refuses reasoning that
    it did not sign, and wants the attribution line of Claude Code."""
    reasoning_field: str | None = None
    """Where the assistant's earlier reasoning goes (`reasoning_content`); None leaves it out."""
    keeps_reasoning: bool = False
    """Whether reasoning in the messages of an OpenAI client stays where the client put it."""
    takes_thinking: bool = True
    """Whether an upstream of Anthropic's dialect gets thinking back at all."""
    reasoning_request: Literal["openrouter", "effort"] | None = None
    """How the upstream is asked to think; None does not ask."""
    max_tokens: int | None = None
    max_tools: int | None = None
    images: bool = True
    files: bool = True
    fields: dict[str, object] = {}
    """What every request to the upstream carries besides: OpenRouter's `provider`, for one."""
