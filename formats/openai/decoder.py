"""Chat Completions → events: a stream of chunks, or one whole completion.

The finish reason is held until usage, `[DONE]` or the end of input, so that usage is only in the
first and the last event. An error inside the stream fails the message, and so does an end without a
finish reason. Text that arrives while a call is open is deferred until the call has ended.
"""

import msgspec

from formats.errors import DEFAULT_LIMITS, LimitExceeded, Limits, UpstreamError
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
from formats.json_codec import conforms, decode
from formats.openai.call_assembly import CallAssembly
from formats.openai.chunk_runs import ChunkRun, Continuation, continuation
from formats.openai.response_wire import (
    CHUNK,
    FINISH_REASONS,
    STOP_REASONS,
    WHOLE,
    Choice,
    Chunk,
    CompleteCompletion,
    Delta,
    ToolCallEntry,
)
from formats.openai.upstream_errors import FAILED, reported_error
from formats.passthrough import Frame
from formats.sse import EventDecoder
from formats.upstream_errors import (
    foreign_document,
    read_document,
    truncated_answer,
    unreadable_part,
)

_chunks = msgspec.json.Decoder(Chunk)
_complete_completions = msgspec.json.Decoder(CompleteCompletion)


class OpenAIDecoder:
    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.served_by: str | None = None
        """The provider that answered, if the upstream is a router that names it."""
        self.is_irregular = False
        self.is_terminated = False
        self.frame = Frame()
        self.usage = UNKNOWN_USAGE
        self.event_count = 0
        self._limits = limits
        self._sse = EventDecoder(limits)
        self._calls = CallAssembly(limits)
        self._run = ChunkRun()
        self._out: list[Event] = []
        self._deferred: list[Event] = []  # text that arrived while a call was open
        self._deferred_chars = 0
        self._finish: str | None = None
        self._started = False
        self._has_content = False
        self._ignored_choice = False
        self._done = False

    @property
    def has_pending(self) -> bool:
        """True if something was read that is not in any event yet."""
        if self._finish is not None or self._deferred:
            return not self._done
        return self._calls.open and self._calls.has_pending

    def feed(self, data: bytes) -> list[Event]:
        run, sse = self._run, self._sse
        if sse.is_at_event_start and len(data) <= sse.safe_bytes and (text := run.read_event(data)):
            self.event_count += 1
            if run.kind is TextDelta:
                return [TextDelta(text)]
            run.texts.append(text)
            return self.take()
        events = sse.feed(data)
        self.event_count += len(events)
        self.is_irregular = self.is_irregular or sse.is_unusual
        position = 0
        while (position := run.read(events, position)) < len(events):
            name, payload = events[position]
            self._read(payload, name)
            position += 1
        if sse.error is not None:
            raise sse.error
        if run.texts:
            self._flush_run()
        out, self._out = self._out, []
        return out

    def close(self) -> list[Event]:
        """The last events; raises UpstreamError if the answer has no end."""
        for name, payload in self._sse.close():
            self._read(payload, name)
        self._flush_run()
        if self._sse.error is not None:
            raise self._sse.error
        if not self._done:
            if self._finish is None:
                raise truncated_answer("a finish reason")
            self._end(self._finish)
        return self.take()

    def read_whole(self, body: bytes) -> list[Event]:
        """The events of a completion that came as one JSON document."""
        self.is_terminated = True
        chunk = read_document(_chunks, body, "a completion")
        if chunk.error is None and not chunk.choices:
            raise foreign_document(body)
        self.is_irregular = not conforms(_complete_completions, body)
        self._accept(chunk, body, form=WHOLE)
        self._flush_run()
        if not self._done:
            self._end(self._finish)
        return self.take()

    def take(self) -> list[Event]:
        """The events that were read before an error was raised."""
        self._flush_run()
        out, self._out = self._out, []
        return out

    def _read(self, data: bytes, name: bytes = b"") -> None:
        if self._done:  # data after the end is not read, so it must not be passed through
            is_end = data == b"[DONE]" and not name
            self.is_terminated = self.is_terminated or is_end
            self.is_irregular = self.is_irregular or not is_end
            return
        if name:  # OpenAI's events have none, and its SDKs read those that have one differently
            self.is_irregular = True
        if not data.startswith(b"{"):
            self.is_irregular = self.is_irregular or data != b"[DONE]"
            data = data.strip()
            if data == b"[DONE]":
                self.is_terminated = True
                self._flush_run()
                self._end(self._finish)
                return
            if data in (b"", b"null"):
                self.event_count -= 1
                return
        try:
            chunk = decode(_chunks, data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise unreadable_part("a chunk", error) from error
        self._accept(chunk, data, name)

    def _accept(self, chunk: Chunk, data: bytes, name: bytes = b"", form: str = CHUNK) -> None:
        if chunk.error is not None or (chunk.choices is None and chunk.is_error(name)):
            raise reported_error(chunk.error_body())
        if not self._started:
            self._started = True
            self._out.append(chunk.start())
            self.served_by = str(chunk.provider) if chunk.provider else None
            # Only the first chunk is checked: checking each would cost as much as decoding it.
            self.is_irregular = self.is_irregular or not chunk.is_complete(form)
        choices = chunk.choices
        if choices is None or (choices and choices[0].index is None):
            self.is_irregular = True
        more = continuation(chunk)
        if more is not None and self._is_expected(more):
            self._continue(more, data)
        else:
            self._read_chunk(chunk)

    def _is_expected(self, more: Continuation) -> bool:
        kind, _, index = more
        if kind is ToolCallDelta:
            return self._calls.open and self._calls.is_newest(index)
        return not self._calls.open

    def _continue(self, more: Continuation, data: bytes) -> None:
        kind, text, _ = more
        if not text:
            return
        if kind is not self._run.kind:
            self._flush_run()
        self._begin_content()
        self._run.add(more, data)

    def _flush_run(self) -> None:
        """Turn the texts of the run into one event."""
        run = self._run
        if not run.texts:
            return
        texts, run.texts = run.texts, []
        if run.kind is ToolCallDelta:
            self._out += self._calls.feed_fragments(texts)
            self._note_calls()
            return
        if self._deferred:
            self._release_deferred()
        kind = ReasoningDelta if run.kind is ReasoningDelta else TextDelta
        self._out.append(kind("".join(texts)))

    def _note_calls(self) -> None:
        self.is_irregular = self.is_irregular or self._calls.is_irregular
        if self.frame.index != self._calls.count - 1:
            self.frame = Frame(self._calls.count - 1)

    def _read_chunk(self, chunk: Chunk) -> None:
        self._flush_run()
        self._run.end()
        if chunk.usage is not None:
            self.usage = self.usage.updated(chunk.usage.counts())
        if chunk.choices:
            self.is_irregular = self.is_irregular or len(chunk.choices) > 1
            for choice in chunk.choices:
                self._read_choice(choice)
        elif chunk.usage is not None and self._finish is not None:
            self._end(self._finish)

    def _read_choice(self, choice: Choice) -> None:
        if choice.index:
            self.is_irregular = True  # its calls are not read, so they must not be passed through
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
                    entry.index = index  # optional in a whole completion
        if delta is not None:
            self._read_delta(delta)
        if choice.usage is not None:
            self.usage = self.usage.updated(choice.usage.counts())
        if choice.finish_reason:
            is_known = choice.finish_reason in FINISH_REASONS
            if not is_known or self._finish not in (None, choice.finish_reason):
                self.is_irregular = True
            self._finish = choice.finish_reason
            for reason in (choice.finish_reason, choice.native_finish_reason or ""):
                if reason.lower() in FAILED:
                    raise UpstreamError(f"The upstream ended its answer with {reason!r}")

    def _read_delta(self, delta: Delta) -> None:
        """Read the parts of a delta in the order in which a model writes them."""
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
        if text := delta.reasoning_text():
            self._add(ReasoningDelta(text))
        for detail in delta.reasoning_details or ():
            if not detail.is_anthropic():
                continue  # another vendor's signature: Anthropic would reject it in the next turn
            if detail.signature:
                self._add(ReasoningSignature(detail.signature))
            if detail.data:
                self._add(ReasoningRedacted(detail.data))

    def _read_calls(self, delta: Delta) -> None:
        given = delta.tool_calls or ()
        entries = [entry for entry in given if entry and entry != ToolCallEntry()]
        self.is_irregular = self.is_irregular or len(entries) < len(given)
        if delta.function_call is not None and not entries:  # next to tool_calls it is a copy
            entries.append(ToolCallEntry(function=delta.function_call))
        for entry in entries:
            self._begin_content()
            self._out += self._calls.feed(entry, alone=len(entries) == 1)
        self._note_calls()

    def _begin_content(self) -> None:
        self._has_content = True
        if self._finish is not None:  # the finish reason must be last
            self.is_irregular = True

    def _add(self, event: Event) -> None:
        self._begin_content()
        if self._calls.open:
            self._out += self._calls.settle()
        if self._calls.open:
            self._defer(event)
            return
        if self._deferred:
            self._release_deferred()
        self._out.append(event)

    def _defer(self, event: Event) -> None:
        self._deferred.append(event)
        if isinstance(event, TextDelta | ReasoningDelta):
            self._deferred_chars += len(event.text)
        if self._deferred_chars > self._limits.held_chars:
            raise LimitExceeded("held_chars", self._limits.held_chars)

    def _release_deferred(self) -> None:
        self._out += self._deferred
        self._deferred = []
        self._deferred_chars = 0

    def _end(self, finish: str | None) -> None:
        if finish is None:
            if not self._has_content or self._calls.open:
                raise truncated_answer("a finish reason")
            self.is_irregular = True
            self._out.append(Notice(NoticeCode.FINISH_REASON_MISSING))
        reason = STOP_REASONS.get((finish or "stop").lower(), StopReason.END_TURN)
        self._out += self._calls.finish(cut=reason is StopReason.MAX_TOKENS)
        self._release_deferred()
        self._out.append(MessageEnd(reason, usage=self.usage))
        self._run.end()
        self._done = True
