"""One request, in the richer (Anthropic-like) shape that both dialects parse to and render from.

What a target dialect cannot carry is named in a notice by its renderer, never lost in silence.
JSON that only passes through (schemas, arguments) stays the bytes that the client sent, so that
numbers keep their spelling and equal prefixes render to equal bytes.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Raw, Struct


class Text(Struct, frozen=True):
    text: str


class Image(Struct, frozen=True):
    """Either `data` (base64) with its media type, or a `url`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Document(Struct, frozen=True):
    """Either `data` (base64), a `url`, or plain `text`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    text: str | None = None
    title: str | None = None


class Reasoning(Struct, frozen=True):
    text: str
    signature: str | None = None


class RedactedReasoning(Struct, frozen=True):
    data: str


class ToolCall(Struct, frozen=True):
    id: str
    name: str
    arguments: bytes
    """JSON text of an object."""


class ToolResult(Struct, frozen=True):
    call_id: str
    content: "tuple[Text | Image | Document, ...]" = ()
    is_error: bool = False


Part: TypeAlias = (
    Text | Image | Document | Reasoning | RedactedReasoning | ToolCall | ToolResult
)


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(Struct, frozen=True):
    role: Role
    parts: tuple[Part, ...]
    path: str = ""
    """Where the client's JSON has it, for messages about it."""


class Tool(Struct, frozen=True):
    name: str
    description: str | None
    schema: bytes
    """JSON text of the JSON Schema of its arguments."""
    strict: bool | None = None


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


class Conversation(Struct, frozen=True):
    model: str
    messages: tuple[Message, ...]
    system: tuple[Text, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    sampling: Sampling = Sampling()
    reasoning: ReasoningMode = ReasoningMode()
    output_schema: bytes | None = None
    """JSON text of the schema that the answer must follow."""
    stream: bool = False
    include_usage: bool = True
    """An OpenAI client gets its usage chunk only when it asked for one."""
    dialect: str = ""
    extra: dict[str, Raw] = {}
    """Top-level fields that this model has no place for; they go on to an upstream of `dialect`."""

    def calls(self) -> Iterator[ToolCall]:
        """Every call of the history, in order."""
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, ToolCall):
                    yield part
