"""Chat Completions → events: chunks, or one whole completion.

The finish reason is held until usage, `[DONE]` or the end of input has come, so that usage appears
only on the first and the last event. An error inside the stream fails the message, and so does an
end without a finish reason. Text that arrives while a call is open follows the call.
"""

import msgspec

from formats.codec import decode
from formats.errors import (
    DEFAULT_LIMITS,
    FailureKind,
    LimitExceeded,
    Limits,
    UpstreamError,
)
from formats.events import (
    UNKNOWN_USAGE,
    Event,
    MessageEnd,
    Notice,
    NoticeCode,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    StopReason,
    TextDelta,
    ToolCallDelta,
)
from formats.openai.calls import Calls
from formats.openai.chunks import CHUNK, WHOLE, Choice, Chunk, Delta, ErrorBody, ToolCallEntry
from formats.openai.failure import FAILED, reported_error
from formats.sse import EventDecoder
from formats.verbatim import Frame

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

_chunks = msgspec.json.Decoder(Chunk)
_decode = _chunks.decode


class OpenAIDecoder:
    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.served_by: str | None = None
        """Who really answered, where an upstream that routes says so."""
        self.is_irregular = False
        self.frame = Frame()
        self._limits = limits
        self._sse = EventDecoder(limits)
        self._calls = Calls(limits)
        self._out: list[Event] = []
        self._run: list[str] = []  # the texts of the deltas that the next event will stand for
        self._run_kind: type[TextDelta] | type[ToolCallDelta] = TextDelta
        self._later: list[Event] = []  # text that arrived while a call was open
        self._later_chars = 0
        self._finish: str | None = None
        self._usage = UNKNOWN_USAGE
        self._started = False
        self._has_content = False
        self._ignored_choice = False
        self._done = False

    @property
    def holds(self) -> bool:
        """Whether something was read that no event tells of yet."""
        if self._finish is not None or self._later:
            return not self._done
        return self._calls.open and self._calls.waits

    def feed(self, data: bytes) -> list[Event]:
        for name, payload in self._sse.feed(data):
            self._read(payload, name)
        return self.take()

    def close(self) -> list[Event]:
        """The last events; raises UpstreamError when the answer has no end."""
        for name, payload in self._sse.close():
            self._read(payload, name)
        if not self._done:
            if self._finish is None:
                raise UpstreamError("The upstream's answer ended without a finish reason")
            self._close_run()
            self._end(self._finish)
        return self.take()

    def read_whole(self, body: bytes) -> list[Event]:
        """The events of a completion that came as one JSON document."""
        self._read(body, kind=WHOLE)
        if not self._done:
            self._end(self._finish)
        return self.take()

    def take(self) -> list[Event]:
        """The events that were read before an error was raised."""
        self._close_run()
        out, self._out = self._out, []
        return out

    def _read(self, data: bytes, name: bytes = b"", kind: str = CHUNK) -> None:
        if self._done:
            return
        if not data.startswith(b"{"):
            data = data.strip()
            if data == b"[DONE]":
                self._close_run()
                self._end(self._finish)
            if data in (b"[DONE]", b"", b"null"):
                return
        try:
            chunk = _decode(data) if b"\\u" not in data else decode(_chunks, data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UpstreamError(
                f"The upstream sent a chunk that cannot be read: {error}",
                kind=FailureKind.TRANSFORMATION,
            ) from error
        if chunk.error is not None or (chunk.choices is None and self._is_error(chunk, name)):
            message = chunk.message or chunk.detail
            body = chunk.error or ErrorBody(message=message, code=chunk.code)
            raise reported_error(body, is_reported=bool(chunk.error))
        if not self._started:
            self._started = True
            self._out.append(chunk.start())
            self.served_by = str(chunk.provider) if chunk.provider else None
            # The first speaks for all: to look at each would cost as much as reading it.
            self.is_irregular = not chunk.is_complete(kind)
        if self._extends_run(chunk):
            return
        self._close_run()
        if chunk.usage is not None:
            self._usage = self._usage.updated(chunk.usage.counts())
        if chunk.choices:
            for choice in chunk.choices:
                self._read_choice(choice)
        elif chunk.usage is not None and self._finish is not None:
            self._end(self._finish)

    def _extends_run(self, chunk: Chunk) -> bool:
        """Whether a chunk is just a little more of what came last, as nearly all of them are.

        One read often brings many: as one delta they cost the rest of the way once.
        """
        if not chunk.choices or chunk.usage:
            return False
        choice = chunk.choices[0]
        delta = choice.delta
        if delta is None or choice.finish_reason or choice.index or choice.usage or choice.error:
            return False
        if delta.reasoning or delta.reasoning_content or delta.reasoning_details or delta.refusal:
            return False
        if not delta.tool_calls:
            if type(delta.content) is not str or delta.function_call or self._calls.open:
                return False
            return self._extend(TextDelta, delta.content)
        if delta.content or len(delta.tool_calls) > 1 or not self._calls.open:
            return False
        return self._extend(ToolCallDelta, self._calls.proceed(delta.tool_calls[0]))

    def _extend(self, kind: type[TextDelta] | type[ToolCallDelta], text: str | None) -> bool:
        if text is None:
            return False
        if text:
            if kind is not self._run_kind or self._later:
                self._close_run()
                if self._later:
                    self._flush()
                self._run_kind = kind
            self._has_content = True
            self._run.append(text)
        return True

    def _close_run(self) -> None:
        if self._run:
            self._out.append(self._run_kind("".join(self._run)))
            self._run = []

    def _is_error(self, chunk: Chunk, name: bytes) -> bool:
        """Whether a chunk without choices is an error in one of the shapes of other servers."""
        return name == b"error" or chunk.object == "error" or bool(chunk.message or chunk.detail)

    def _read_choice(self, choice: Choice) -> None:
        if choice.index:
            if not self._ignored_choice:
                self._ignored_choice = True
                self._out.append(Notice(NoticeCode.CHOICE_IGNORED, f"index {choice.index}"))
            return
        if choice.error is not None:
            raise reported_error(choice.error)
        delta = choice.delta or choice.message
        if choice.message is not None:
            for index, entry in enumerate(choice.message.tool_calls or ()):
                if entry is not None and entry.index is None:
                    entry.index = index  # which a whole answer need not say
        if delta is not None:
            self._read_delta(delta)
        if choice.usage is not None:
            self._usage = self._usage.updated(choice.usage.counts())
        if choice.finish_reason:
            self._finish = choice.finish_reason
            for reason in (choice.finish_reason, choice.native_finish_reason or ""):
                if reason.lower() in FAILED:
                    raise UpstreamError(f"The upstream ended its answer with {reason!r}")

    def _read_delta(self, delta: Delta) -> None:
        """The parts of a delta, in the order in which a model writes them."""
        if delta.reasoning or delta.reasoning_content or delta.reasoning_details:
            self._read_reasoning(delta)
        content = delta.content
        if isinstance(content, list):
            self.is_irregular = True
            if reasoning := "".join(part.reasoning() for part in content):
                self._add(ReasoningDelta(reasoning))
            content = "".join(part.text or "" for part in content)
        if content:
            self._add(TextDelta(content))
        if delta.refusal:
            self._add(TextDelta(delta.refusal))
        if delta.tool_calls or delta.function_call:
            self._read_calls(delta)

    def _read_reasoning(self, delta: Delta) -> None:
        # Relays send the same text in two or three fields: one copy.
        details = delta.reasoning_details or []
        text = (
            delta.reasoning
            or delta.reasoning_content
            or "".join(detail.text or detail.summary or "" for detail in details)
        )
        if text:
            self._add(ReasoningDelta(text))
        for detail in details:
            if not detail.is_anthropic():
                continue  # another vendor's seal; Anthropic would refuse it when it is replayed
            if detail.signature:
                self._add(ReasoningSignature(detail.signature))
            if detail.data:
                self._add(ReasoningRedacted(detail.data))

    def _read_calls(self, delta: Delta) -> None:
        entries = [entry for entry in delta.tool_calls or () if entry and entry != ToolCallEntry()]
        if delta.function_call is not None and not entries:  # beside calls it is a copy
            entries.append(ToolCallEntry(function=delta.function_call))
        for entry in entries:
            self._has_content = True
            self._out += self._calls.feed(entry, alone=len(entries) == 1)
        self.is_irregular = self.is_irregular or self._calls.is_irregular
        self.frame = Frame(self._calls.count - 1)

    def _add(self, event: Event) -> None:
        self._has_content = True
        if self._calls.open:
            self._out += self._calls.settle()
        if self._calls.open:
            self._hold(event)
            return
        if self._later:
            self._flush()
        self._out.append(event)

    def _hold(self, event: Event) -> None:
        """Keep what arrives in the middle of a call until the call is complete."""
        self._later.append(event)
        if isinstance(event, TextDelta | ReasoningDelta):
            self._later_chars += len(event.text)
        if self._later_chars > self._limits.held_chars:
            raise LimitExceeded("held_chars", self._limits.held_chars)

    def _flush(self) -> None:
        self._out += self._later
        self._later = []
        self._later_chars = 0

    def _end(self, finish: str | None) -> None:
        if finish is None:
            if not self._has_content or self._calls.open:
                raise UpstreamError("The upstream's answer ended without a finish reason")
            self._out.append(Notice(NoticeCode.FINISH_REASON_MISSING))
        reason = STOP_REASONS.get((finish or "stop").lower(), StopReason.END_TURN)
        self._out += self._calls.finish(cut=reason is StopReason.MAX_TOKENS)
        self._flush()
        self._out.append(MessageEnd(reason, usage=self._usage))
        self._done = True
