"""One structured call of an OpenAI-dialect stream: the fragments of its arguments → events.

Arguments are forwarded as they stand. Where upstreams repeat them, what is new is; junk behind them
fails the call, unless it is a brace too many.
"""

from bisect import bisect_right
from itertools import accumulate

from formats.arguments import Arguments, Status
from formats.errors import Limits
from formats.events import (
    CallFault,
    Event,
    Notice,
    NoticeCode,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
)
from formats.openai.cumulative_arguments import Repeats

_OPEN = Status.OPEN  # bound once: to name a member costs as much as a call
_FAULT = {
    Status.OPEN: CallFault.TRUNCATED,
    Status.INVALID: CallFault.INVALID_JSON,
    Status.NON_OBJECT: CallFault.NON_OBJECT_ARGS,
}


class Call:
    def __init__(self, limits: Limits, number: int) -> None:
        self.number = number
        self.started = False
        self.id = ""
        self.name = ""
        self.ended = False
        self.failed = False
        self.is_plain = True  # whether the fragments, joined, are the arguments
        self.waiting: list[str] = []
        self._arguments = Arguments(limits)
        self._repeats = Repeats()

    @property
    def complete(self) -> bool:
        return self._arguments.status is Status.COMPLETE

    @property
    def has_pending(self) -> bool:
        return not self.started or self._arguments.has_pending

    def is_repeated(self, fragment: str) -> bool:
        return self._repeats.repeats(fragment)

    @property
    def flows(self) -> bool:
        """Whether fragments can be read many at a time, until the arguments end."""
        arguments = self._arguments
        return (
            arguments.status is _OPEN
            and arguments.is_plain
            and self.started
            and not self.waiting
            and self._repeats.sends_what_is_new
        )

    def proceed(self, fragments: list[str]) -> tuple[list[Event], int]:
        """The events of the first fragments, and of how many: none is read behind the end."""
        arguments = self._arguments
        text = "".join(fragments)
        forward, end = (text, 0) if arguments.continues_string(text) else arguments.read(text)
        if arguments.status is _OPEN:
            self._repeats.note(text)
            return [ToolCallDelta(forward)] if forward else [], len(fragments)
        # What ends them is the last character that was read, or the one that was not.
        ends = list(accumulate(map(len, fragments)))
        last = bisect_right(ends, end - 1 if arguments.status is Status.COMPLETE else end)
        start = ends[last] - len(fragments[last])
        self._repeats.note(text[: ends[last]])
        return self._judge(forward, fragments[last], end - start), last + 1

    def stream(self) -> list[Event]:
        """The events of the fragments that waited."""
        events: list[Event] = []
        if not self.started:
            self.started = True
            events.append(ToolCallStart(self.id, self.name))
        for fragment in self.waiting:
            events += self.push(fragment)
        self.waiting.clear()
        return events

    def push(self, fragment: str) -> list[Event]:
        """The events of one fragment."""
        addition, repeated = self._repeats.addition(fragment, complete=self.complete)
        events: list[Event] = []
        if repeated:
            self.is_plain = False
            events.append(Notice(NoticeCode.ARGUMENTS_REPEATED, self.name))
        if addition and not self.failed:
            forward, end = self._arguments.read(addition)
            events += self._judge(forward, addition, end)
        return events

    def _judge(self, forward: str, text: str, end: int) -> list[Event]:
        """The events of what is forwarded; of the newest fragment, `text`, `end` was reached."""
        junk = text[end:].strip() if self.complete else ""
        self.is_plain = self.is_plain and self._arguments.is_plain and not junk
        if junk.strip("}"):
            forward = forward[:-1]  # no client may take what it got for a complete call
        events: list[Event] = [ToolCallDelta(forward)] if forward else []
        if end == len(text) and self._arguments.status is Status.OPEN:
            return events
        if self._arguments.decoded_twice and forward:
            events.insert(0, Notice(NoticeCode.ARGUMENTS_DECODED_TWICE, self.name))
        if junk:
            if junk.strip("}"):
                return [*events, *self._fail(CallFault.INVALID_JSON, junk)]
            events.append(Notice(NoticeCode.MARKUP_REMOVED, junk))
        elif self._arguments.status in (Status.INVALID, Status.NON_OBJECT):
            events += self._fail(_FAULT[self._arguments.status], text)
        return events

    def _fail(self, fault: CallFault, detail: str) -> list[Event]:
        self.failed = True
        return [ToolCallFailed(fault, detail[:200])]

    def close(self, *, cut: bool) -> list[Event]:
        self.ended = True
        if self.failed:
            return []
        self._arguments.finish()
        status = self._arguments.status
        if not self.name:
            return self._fail(CallFault.MISSING_NAME, "")
        if status is Status.COMPLETE or (status is Status.EMPTY and not cut):
            return [ToolCallEnd()]
        return self._fail(_FAULT.get(status, CallFault.TRUNCATED), "")
