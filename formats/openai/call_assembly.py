"""Assembles the tool calls of a Chat Completions stream from their fragments.

The wire identifies a call by `index`, but upstreams leave it out, send 0 for every call, or
interleave the fragments of several calls. A call is therefore identified by its index where that
can be trusted, else by a new id, else by a new name after complete arguments. The oldest unfinished
call streams; fragments of later calls are held, up to the limit `held_chars`, until it ends.

Arguments are forwarded unchanged. If an upstream repeats them, only the new part is forwarded. Text
after the end of the arguments fails the call, unless it is only surplus closing braces.
"""

from bisect import bisect_right
from collections import deque
from itertools import accumulate

import msgspec

from formats.arguments import Arguments, Status
from formats.errors import LimitExceeded, Limits
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
from formats.openai.cumulative_arguments import CumulativeArguments
from formats.openai.response_wire import Function, ToolCallEntry

_OPEN = Status.OPEN  # a global: looking up an Enum member costs as much as a call
_FAULTS = {
    Status.OPEN: CallFault.TRUNCATED,
    Status.INVALID: CallFault.INVALID_JSON,
    Status.NON_OBJECT: CallFault.NON_OBJECT_ARGS,
}


class Call:
    """One call: turns fragments of its arguments into events."""

    def __init__(self, limits: Limits, number: int) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self.started = False
        self.ended = False
        self.failed = False
        self.pending: list[str] = []
        """Fragments that arrived before it was this call's turn."""
        self.is_plain = True
        """True if joining the fragments gives the arguments."""
        self._arguments = Arguments(limits)
        self._cumulative = CumulativeArguments()

    @property
    def complete(self) -> bool:
        return self._arguments.status is Status.COMPLETE

    @property
    def has_pending(self) -> bool:
        return not self.started or self._arguments.has_pending

    @property
    def is_streaming(self) -> bool:
        """True if several fragments can be read as one."""
        arguments = self._arguments
        return (
            arguments.status is _OPEN
            and arguments.is_plain
            and self.started
            and not self.pending
            and self._cumulative.is_incremental
        )

    def is_repeat(self, fragment: str) -> bool:
        return self._cumulative.is_repeat(fragment)

    def read_joined(self, fragments: list[str]) -> tuple[list[Event], int]:
        """Read fragments of a streaming call up to the one that ends the arguments.

        Returns the events and the number of fragments read.
        """
        arguments = self._arguments
        text = "".join(fragments)
        forward, end = arguments.read(text)
        if arguments.status is _OPEN:
            self._cumulative.append(text)
            return [ToolCallDelta(forward)] if forward else [], len(fragments)
        # `end` is after the last character of complete arguments, or at an invalid character.
        ends = list(accumulate(map(len, fragments)))
        last = bisect_right(ends, end - 1 if arguments.status is Status.COMPLETE else end)
        start = ends[last] - len(fragments[last])
        self._cumulative.append(text[: ends[last]])
        return self._events(forward, fragments[last], end - start), last + 1

    def read_pending(self) -> list[Event]:
        events: list[Event] = []
        if not self.started:
            self.started = True
            events.append(ToolCallStart(self.id, self.name))
        for fragment in self.pending:
            events += self._read(fragment)
        self.pending.clear()
        return events

    def close(self, *, cut: bool) -> list[Event]:
        """End the call. `cut` means that the upstream stopped at its token limit."""
        self.ended = True
        if self.failed:
            return []
        self._arguments.finish()
        status = self._arguments.status
        if not self.name and not "".join(self.pending).strip():
            return [ToolCallStart(self.id, ""), ToolCallEnd()]  # delivery judges empty calls
        if not self.name:
            return self._fail(CallFault.MISSING_NAME, "")
        if status is Status.COMPLETE or (status is Status.EMPTY and not cut):
            return [ToolCallEnd()]
        return self._fail(_FAULTS.get(status, CallFault.TRUNCATED), "")

    def _read(self, fragment: str) -> list[Event]:
        new, repeats = self._cumulative.new_part(fragment, complete=self.complete)
        events: list[Event] = []
        if repeats:
            self.is_plain = False
            events.append(Notice(NoticeCode.ARGUMENTS_REPEATED, self.name))
        if new and not self.failed:
            forward, end = self._arguments.read(new)
            events += self._events(forward, new, end)
        return events

    def _events(self, forward: str, fragment: str, end: int) -> list[Event]:
        """Events for text to forward, after the newest fragment was read up to `end`."""
        junk = fragment[end:].strip() if self.complete else ""
        self.is_plain = self.is_plain and self._arguments.is_plain and not junk
        if junk.strip("}"):
            forward = forward[:-1]  # so that no client mistakes a failed call for a complete one
        events: list[Event] = [ToolCallDelta(forward)] if forward else []
        if end == len(fragment) and self._arguments.status is Status.OPEN:
            return events
        if self._arguments.decoded_twice and forward:
            events.insert(0, Notice(NoticeCode.ARGUMENTS_DECODED_TWICE, self.name))
        if junk:
            if junk.strip("}"):
                return [*events, *self._fail(CallFault.INVALID_JSON, junk)]
            events.append(Notice(NoticeCode.MARKUP_REMOVED, junk))
        elif self._arguments.status in (Status.INVALID, Status.NON_OBJECT):
            events += self._fail(_FAULTS[self._arguments.status], fragment)
        return events

    def _fail(self, fault: CallFault, detail: str) -> list[Event]:
        self.failed = True
        return [ToolCallFailed(fault, detail[:200])]


class CallAssembly:
    """All calls of one answer, in the order in which the client gets them."""

    def __init__(self, limits: Limits) -> None:
        self.count = 0
        self.is_irregular = False
        """True if a client that identifies calls by index only, like OpenAI's SDK, would fail."""
        self._limits = limits
        self._queue: deque[Call] = deque()  # unfinished calls, oldest first
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._newest: Call | None = None
        self._repeated_name = ""  # a name sent again, without arguments, after a complete call
        self._pending_chars = 0
        self._late_faults: list[Event] = []  # faults of calls that had already ended

    @property
    def open(self) -> bool:
        return bool(self._queue)

    @property
    def has_pending(self) -> bool:
        """True if an open call has fragments that are not in any event yet."""
        return len(self._queue) > 1 or self._queue[0].has_pending

    def is_newest(self, index: int | None) -> bool:
        """True if an entry with this index, but no id and no name, continues the newest call."""
        call = self._newest
        return call is not None and index == call.number and self._by_index.get(index) is call

    def feed(self, entry: ToolCallEntry, *, alone: bool = True) -> list[Event]:
        """Read one entry. Several entries of one delta (not `alone`) are separate calls."""
        function = entry.function or Function()
        call_id = "" if entry.id is None else str(entry.id)
        fragment = _text(function.arguments)
        count = self.count
        call = self._identify(entry.index, call_id, function.name or "", fragment, alone)
        is_first = count < self.count
        self.is_irregular = self.is_irregular or (
            entry.index != call.number
            or call.ended
            or function.arguments is None
            or isinstance(function.arguments, dict | list)
            or (is_first and not (call_id and entry.type == "function"))
            or (not is_first and bool(call_id or function.name))
        )
        call.id = call.id or call_id
        call.name = call.name or (function.name or "")
        if call.ended:
            if call.failed:  # one fault is enough; the rest of its arguments follows
                return []
            if not call.is_repeat(fragment) and fragment.strip(" \t\r\n}"):
                call.failed = True
                self._late_faults.append(ToolCallFailed(CallFault.INVALID_JSON, fragment[:200]))
            return []
        call.pending.append(fragment)
        self._pending_chars += len(fragment)
        return self._advance()

    def feed_fragments(self, fragments: list[str]) -> list[Event]:
        """Read several fragments of the newest call, as if each came in an entry with its index."""
        call = self._newest
        assert call is not None  # noqa: S101
        events: list[Event] = []
        position = 0
        while position < len(fragments):
            if call.is_streaming:
                new, count = call.read_joined(fragments[position:])
                events += new
                position += count
                self.is_irregular = self.is_irregular or not call.is_plain
                if call.failed or (call.complete and call is not self._queue[-1]):
                    events += self._advance()
            else:
                function = Function(arguments=fragments[position])
                events += self.feed(ToolCallEntry(index=call.number, function=function))
                position += 1
        return events

    def settle(self) -> list[Event]:
        """End the calls that are complete, because something else follows."""
        events: list[Event] = []
        while self._queue and self._queue[0].complete:
            events += self._queue.popleft().close(cut=False)
            events += self._advance()
        return events

    def finish(self, *, cut: bool) -> list[Event]:
        """End all calls. `cut` means that the upstream stopped at its token limit."""
        events: list[Event] = []
        while self._queue:
            call = self._queue[0]
            if call.name:
                events += call.read_pending()
            events += call.close(cut=cut)
            self._queue.popleft()
        self._pending_chars = 0
        events += self._late_faults
        self._late_faults = []
        return events

    def _identify(
        self, index: int | None, call_id: str, name: str, fragment: str, alone: bool
    ) -> Call:
        call = self._newest if index is None else self._by_index.get(index)
        if call is None or (name and index is None and not alone):
            call = None
        elif call_id and call.id and call_id != call.id:
            call = self._by_id.get(call_id)  # the upstream sends the same index for every call
        elif not call_id and self._starts_another(call, name, fragment):
            call = None
        if call is None:
            call = Call(self._limits, self.count)
            self.count += 1
            call.name, self._repeated_name = self._repeated_name, ""
            self._queue.append(call)
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id.setdefault(call_id, call)
        self._newest = call
        return call

    def _starts_another(self, call: Call, name: str, fragment: str) -> bool:
        """True if an entry without an id starts a new call although its index names `call`."""
        if name and call.name and name != call.name:
            return True
        starts = call.complete and fragment.strip() and not call.is_repeat(fragment)
        if name and call.complete and not fragment.strip():
            self._repeated_name = name  # either a call of the same tool or a repetition
        return bool(starts and (name or self._repeated_name))

    def _advance(self) -> list[Event]:
        """Stream the oldest call. When it is complete, end it and continue with the next."""
        events: list[Event] = []
        while self._queue:
            call = self._queue[0]
            if not call.name:
                break
            pending = sum(map(len, call.pending))
            events += call.read_pending()
            self.is_irregular = self.is_irregular or not call.is_plain
            self._pending_chars -= pending
            # The newest call stays open even when complete: more fragments would make it invalid.
            if call.failed or (call.complete and call is not self._queue[-1]):
                events += call.close(cut=False)
                self._queue.popleft()
            else:
                break
        if self._pending_chars > self._limits.held_chars:
            raise LimitExceeded("held_chars", self._limits.held_chars)
        return events


def _text(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()
