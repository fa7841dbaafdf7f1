"""The chunks of Chat Completions as upstreams send them: every field may be absent or null."""

from typing import Any

from msgspec import Raw, Struct

from formats.events import MessageStart, StopReason, Usage

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
    """OpenRouter's structured reasoning."""

    type: str | None = None
    text: str | None = None
    summary: str | None = None
    signature: str | None = None
    data: str | None = None
    format: str | None = None
    """Whose it is: OpenRouter says `anthropic-claude-v1`, `openai-responses-v1`, …"""

    def is_anthropic(self) -> bool:
        """Whether a signature or encrypted text may ever be shown to Anthropic."""
        return self.format is None or self.format.startswith("anthropic")


class ContentPart(Struct):
    type: str | None = None
    text: str | None = None
    thinking: list["ContentPart"] | str | None = None
    """Mistral's place for reasoning."""

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
        """Relays send the same text in two or three fields: one copy."""
        details = self.reasoning_details or ()
        said = self.reasoning or self.reasoning_content
        return said or "".join(detail.text or detail.summary or "" for detail in details)


class TokenDetails(Struct):
    cached_tokens: Any = None
    cache_write_tokens: Any = None


class WireUsage(Struct):
    prompt_tokens: Any = None
    completion_tokens: Any = None
    prompt_tokens_details: TokenDetails | None = None
    cached_tokens: Any = None
    """Moonshot's place for it."""
    prompt_cache_hit_tokens: Any = None
    """DeepSeek's place for it."""

    def counts(self) -> Usage:
        """As events have them: `prompt_tokens` includes what the cache served, `input` does not."""
        details = self.prompt_tokens_details or TokenDetails()
        cached = details.cached_tokens
        for elsewhere in (self.cached_tokens, self.prompt_cache_hit_tokens):
            cached = elsewhere if cached is None else cached
        read, written = _count(cached), _count(details.cache_write_tokens)
        total = _count(self.prompt_tokens)
        return Usage(
            input=None if total is None else max(total - (read or 0) - (written or 0), 0),
            output=_count(self.completion_tokens),
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
    """Who served it, where OpenRouter tells."""
    choices: list[Choice] | None = None
    usage: WireUsage | None = None
    error: ErrorBody | str | None = None
    message: Any = None
    code: Any = None
    detail: Any = None

    def start(self) -> MessageStart:
        """What the first chunk says of the message."""
        return MessageStart(
            str(self.id or ""), self.model or "", created=_count(self.created) or None
        )

    def delta(self) -> Delta | None:
        """Its delta, if it has no more than one."""
        if not self.choices or len(self.choices) > 1 or self.usage:
            return None
        choice = self.choices[0]
        if choice.finish_reason or choice.index or choice.usage or choice.error is not None:
            return None
        return choice.delta

    def is_error(self, name: bytes) -> bool:
        """Whether one without choices is an error in one of the shapes of other servers."""
        return name == b"error" or self.object == "error" or bool(self.message or self.detail)

    def error_body(self) -> ErrorBody | str:
        """What an error says, in whichever shape."""
        message = self.message or self.detail
        return self.error or ErrorBody(message=message, code=self.code)

    def is_complete(self, form: str) -> bool:
        """Whether it says all that OpenAI's types require; strict clients refuse one without."""
        return (
            self.object == form
            and type(self.created) is int
            and self.created > 0
            and bool(self.id and self.model)
            and type(self.id) is str
            and self.choices is not None
        )


def _count(tokens: Any) -> int | None:
    """A count, however it is spelled; nonsense is unknown."""
    if isinstance(tokens, str) and tokens.isascii() and tokens.isdigit() and len(tokens) < 16:
        return int(tokens)
    if isinstance(tokens, int | float) and 0 <= tokens < 10**15:
        return int(tokens)
    return None
