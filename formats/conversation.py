"""A parsed request, in an Anthropic-like shape that both dialects parse to and render from.

If the target dialect cannot carry something, its renderer adds a notice; nothing is lost silently.
JSON that only passes through (schemas, arguments) stays the client's bytes, so that numbers keep
their spelling and equal prefixes render to equal bytes.

Values made for each message have `gc=False`, because they cannot be part of a reference cycle.
"""

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Raw, Struct

from formats.events import Notice, NoticeCode


class CacheMark(Struct, frozen=True, gc=False, omit_defaults=True):
    """Anthropic's `cache_control`: the upstream caches the request up to the marked part."""

    type: str
    ttl: str | None = None


CACHE_DROPPED = Notice(NoticeCode.FIELD_DROPPED, "cache_control of parts")
"""Says that an OpenAI client's marks are lost, unless the upstream is one that takes them."""


class Text(Struct, frozen=True, gc=False):
    text: str
    cache: CacheMark | None = None


class Image(Struct, frozen=True, gc=False):
    """Either `data` (base64) with its media type, or a `url`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    cache: CacheMark | None = None


class Document(Struct, frozen=True, gc=False):
    """Either `data` (base64), a `url`, or plain `text`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    text: str | None = None
    title: str | None = None
    cache: CacheMark | None = None


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
    """In an answer: True if the client's tool takes plain text, the argument `input`."""
    cache: CacheMark | None = None


class ToolResult(Struct, frozen=True, gc=False):
    call_id: str
    content: "tuple[Text | Image | Document, ...]" = ()
    is_error: bool = False
    cache: CacheMark | None = None


Part: TypeAlias = Text | Image | Document | Reasoning | RedactedReasoning | ToolCall | ToolResult


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(Struct, frozen=True, gc=False):
    role: Role
    parts: tuple[Part, ...]
    path: str = ""
    """Its place in the client's JSON, for error messages."""


class Tool(Struct, frozen=True, gc=False, cache_hash=True):
    name: str
    description: str | None
    schema: bytes
    """JSON Schema of the arguments, as JSON text."""
    strict: bool | None = None
    is_custom: bool = False
    """True if this function, with one string `input`, replaces a tool that takes plain text."""
    cache: CacheMark | None = None


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
    """Reasoning settings; None for those that the client did not send."""

    enabled: bool | None = None
    budget: int | None = None
    effort: str | None = None


class ServerTool(Struct, frozen=True):
    """A tool that only the client's vendor can run, such as `web_search_20250305`."""

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
    """JSON Schema that the answer must follow, as JSON text."""
    stream: bool = False
    include_usage: bool = True
    """True if an OpenAI client asked for the usage chunk."""
    dialect: str = ""
    source: dict[str, Raw] = {}
    """The client's top-level fields, as its dialect names them, for an upstream of that dialect."""
    body: bytes = b""
    """The request as the client sent it, for an upstream of the same dialect."""
    notices: tuple[Notice, ...] = ()
    """Notices about everything that cannot be sent to an upstream of another dialect."""

    def call_ids(self) -> frozenset[str]:
        """Return the ids of all calls in the history."""
        return frozenset(
            part.id
            for message in self.messages
            for part in message.parts
            if isinstance(part, ToolCall)
        )

    def max_calls(self) -> int | None:
        """Return the number of calls the client allows in the answer; None if unlimited."""
        if self.tool_choice.mode == "none":
            return 0
        return None if self.tool_choice.parallel else 1


class Rendered(Struct, frozen=True):
    """A request for the upstream."""

    body: bytes
    notices: tuple[Notice, ...] = ()
    aliases: dict[str, str] = {}
    """Shortened tool names sent to the upstream → the client's names."""


class Target(Struct, frozen=True):
    """Capabilities of the upstream and its model; a route sets them from the database."""

    model: str | None = None
    """The upstream's name for the model; None keeps the client's."""
    native_ids: Literal["kimi", "mistral"] | None = None
    """The form of call ids: `functions.NAME:N`, as Kimi was trained on, or nine letters and digits,
    because Mistral's API and chat templates reject any other. None keeps the client's."""
    is_anthropic: bool = True
    """True if an upstream of the Anthropic dialect is Anthropic itself, which rejects reasoning
    that it did not sign, and requires the attribution line of Claude Code."""
    reasoning_field: str | None = None
    """The field for the assistant's earlier reasoning (`reasoning_content`); None omits it."""
    keeps_reasoning: bool = False
    """True if reasoning in an OpenAI client's messages stays where the client put it."""
    takes_thinking: bool = True
    """True if an upstream of the Anthropic dialect is sent earlier thinking."""
    reasoning_request: Literal["openrouter", "effort"] | None = None
    """The field that asks the upstream to reason; None sends no such field."""
    max_tokens: int | None = None
    thinking_tokens: int | None = None
    """Tokens for thinking that the model cannot stop; None if it can."""
    max_tools: int | None = None
    images: bool = True
    files: bool = True
    fields: dict[str, object] = {}
    """Fields added to every request to the upstream, such as OpenRouter's `provider`."""
