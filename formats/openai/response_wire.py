"""JSON structs of Chat Completions answers. Upstreams omit any field, so all are optional.

The complete structs have what strict clients require of a whole completion.
"""

from typing import Annotated, Any, Literal, TypeAlias, get_args

from msgspec import Meta, Raw, Struct

from formats.events import MessageStart, StopReason, Usage
from formats.json_codec import count_or_none

CHUNK = "chat.completion.chunk"
WHOLE = "chat.completion"

STOP_REASONS: dict[str, StopReason] = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
}


class Function(Struct):
    name: str | None = None
    arguments: str | dict[str, Raw] | list[Raw] | None = None


class ToolCallEntry(Struct):
    index: int | None = None
    id: str | int | None = None
    type: str | None = None
    function: Function | None = None


class ReasoningDetail(Struct):
    """One entry of OpenRouter's `reasoning_details`."""

    type: str | None = None
    text: str | None = None
    summary: str | None = None
    signature: str | None = None
    data: str | None = None
    format: str | None = None
    """The vendor's format: `anthropic-claude-v1`, `openai-responses-v1`, …"""

    def is_anthropic(self) -> bool:
        """True if Anthropic can verify the signature or decrypt the text."""
        return self.format is None or self.format.startswith("anthropic")


class ContentPart(Struct):
    type: str | None = None
    text: str | None = None
    thinking: list["ContentPart"] | str | None = None
    """Reasoning, as Mistral sends it."""

    def reasoning(self) -> str:
        if isinstance(self.thinking, list):
            return "".join(part.text or "" for part in self.thinking)
        return self.thinking or ""


class Delta(Struct):
    content: str | list[ContentPart] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    tool_calls: list[ToolCallEntry | None] | None = None
    function_call: Function | None = None

    def reasoning_text(self) -> str:
        """The reasoning, once: relays send the same text in two or three fields."""
        details = self.reasoning_details or ()
        text = self.reasoning or self.reasoning_content
        return text or "".join(detail.text or detail.summary or "" for detail in details)


class TokenDetails(Struct):
    cached_tokens: Any = None
    cache_write_tokens: Any = None


class WireUsage(Struct):
    prompt_tokens: Any = None
    completion_tokens: Any = None
    prompt_tokens_details: TokenDetails | None = None
    cached_tokens: Any = None
    """Moonshot's field for cached tokens."""
    prompt_cache_hit_tokens: Any = None
    """DeepSeek's field for cached tokens."""

    def counts(self) -> Usage:
        """Usage for events; unlike `prompt_tokens`, `input` excludes cached tokens."""
        details = self.prompt_tokens_details or TokenDetails()
        cached = details.cached_tokens
        for other in (self.cached_tokens, self.prompt_cache_hit_tokens):
            cached = other if cached is None else cached
        read, written = count_or_none(cached), count_or_none(details.cache_write_tokens)
        total = count_or_none(self.prompt_tokens)
        return Usage(
            input=None if total is None else max(total - (read or 0) - (written or 0), 0),
            output=count_or_none(self.completion_tokens),
            cache_read=read,
            cache_creation=written,
        )


class ErrorBody(Struct):
    message: Any = None
    type: Any = None
    code: Any = None


class Choice(Struct):
    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    usage: WireUsage | None = None
    error: ErrorBody | str | None = None


class Chunk(Struct):
    id: str | int | None = None
    object: str | None = None
    created: Any = None
    model: str | None = None
    provider: Any = None
    """The provider that OpenRouter routed to."""
    choices: list[Choice] | None = None
    usage: WireUsage | None = None
    error: ErrorBody | str | None = None
    message: Any = None
    code: Any = None
    detail: Any = None

    def start(self) -> MessageStart:
        """Make the start of the message from its first chunk."""
        return MessageStart(
            str(self.id or ""), self.model or "", created=count_or_none(self.created) or None
        )

    def delta(self) -> Delta | None:
        """The delta, if the chunk has one choice with nothing else in it."""
        if not self.choices or len(self.choices) > 1 or self.usage:
            return None
        choice = self.choices[0]
        if choice.finish_reason or choice.index or choice.usage or choice.error is not None:
            return None
        return choice.delta

    def is_error(self, name: bytes) -> bool:
        """True if a chunk without choices is an error in the shape of some other server."""
        return (
            name.strip() == b"error" or self.object == "error" or bool(self.message or self.detail)
        )

    def error_body(self) -> ErrorBody | str:
        """The error, in whichever shape the server sent it."""
        message = self.message or self.detail
        return self.error or ErrorBody(message=message, code=self.code)

    def is_complete(self, form: str) -> bool:
        """True if it has all fields that OpenAI's types, and so strict clients, require."""
        return (
            self.object == form
            and type(self.created) is int
            and self.created > 0
            and bool(self.id and self.model)
            and type(self.id) is str
            and self.choices is not None
        )


_NonEmpty = Annotated[str, Meta(min_length=1)]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "function_call"]
FINISH_REASONS = frozenset(get_args(FinishReason))
"""All that OpenAI's types know: a client that compares them runs no call after `tool_use`."""


class CompleteFunction(Struct):
    name: _NonEmpty
    arguments: _NonEmpty


class CompleteCall(Struct):
    id: _NonEmpty
    type: Literal["function"]
    function: CompleteFunction


class CompleteReply(Struct):
    role: Literal["assistant"]
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[CompleteCall] | None = None
    function_call: CompleteFunction | None = None


class CompleteChoice(Struct):
    index: Literal[0]
    message: CompleteReply
    finish_reason: FinishReason


class CompleteUsage(Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int = 0


class CompleteCompletion(Struct):
    id: _NonEmpty
    object: Literal["chat.completion"]
    created: int
    model: _NonEmpty
    choices: list[CompleteChoice]
    usage: CompleteUsage | None = None
