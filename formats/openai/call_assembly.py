"""Structured calls of an OpenAI-dialect stream, brought into sequence.

The wire tells calls apart by `index`, but upstreams leave it out, send 0 for every call, or
interleave the fragments of several. Identity is therefore the index where it can be trusted, else a
new id, else a new name once the arguments before it are complete. The first unfinished call
streams; fragments of later ones wait, within the limit, for their turn.
"""

from collections import deque

import msgspec

from formats.errors import LimitExceeded, Limits
from formats.events import (
    CallFault,
    Event,
    ToolCallFailed,
)
from formats.openai.call import Call
from formats.openai.response_wire import Function, ToolCallEntry


class Calls:
    def __init__(self, limits: Limits) -> None:
        self.count = 0
        self.is_irregular = False
        """Whether a client that goes by index alone, as OpenAI's own does, would go wrong."""
        self._limits = limits
        self._queue: deque[Call] = deque()  # the calls that have not ended, oldest first
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._newest: Call | None = None
        self._announced = ""  # a name that came again, without arguments, after a complete call
        self._waiting_chars = 0
        self._faults: list[Event] = []  # of calls that had already ended

    @property
    def open(self) -> bool:
        return bool(self._queue)

    @property
    def waits(self) -> bool:
        """Whether fragments of open calls were read that no event tells of yet."""
        return len(self._queue) > 1 or self._queue[0].has_pending

    def feed(self, entry: ToolCallEntry, *, alone: bool = True) -> list[Event]:
        """The events of one entry; several in one delta are calls of their own, index or not."""
        function = entry.function or Function()
        call_id = "" if entry.id is None else str(entry.id)
        fragment = _text(function.arguments)
        count = self.count
        call = self._identify(entry.index, call_id, function.name or "", fragment, alone)
        is_first = count < self.count
        self.is_irregular = self.is_irregular or (
            entry.index != call.number
            or isinstance(function.arguments, dict | list)
            or (is_first and not (call_id and entry.type == "function"))
            or (not is_first and bool(call_id or function.name))
        )
        call.id = call.id or call_id
        call.name = call.name or (function.name or "")
        if call.ended:
            if not call.is_repeated(fragment) and fragment.strip(" \t\r\n}"):
                self._faults.append(ToolCallFailed(CallFault.INVALID_JSON, fragment[:200]))
            return []
        call.waiting.append(fragment)
        self._waiting_chars += len(fragment)
        return self._advance()

    def fragment(self, entry: ToolCallEntry | None) -> str | None:
        """What an entry adds to the newest call, or None if it may be more than that."""
        call = self._newest
        function = entry.function if entry else None
        if (
            entry is None
            or function is None
            or call is None
            or entry.id is not None
            or function.name is not None
            or entry.index != call.number
            or self._by_index.get(call.number) is not call
        ):
            return None
        return function.arguments if type(function.arguments) is str else None

    def proceed(self, fragments: list[str], out: list[Event]) -> None:
        """Add the events of several fragments of the newest call."""
        call = self._newest
        assert call is not None  # noqa: S101
        at = 0
        while at < len(fragments):
            if call.flows:
                told, count = call.proceed(fragments[at:])
                out += told
                at += count
                self.is_irregular = self.is_irregular or not call.is_plain
                if call.failed or (call.complete and call is not self._queue[-1]):
                    out += self._advance()
            else:  # what it is comes with the second fragment, and nothing flows behind the end
                function = Function(arguments=fragments[at])
                out += self.feed(ToolCallEntry(index=call.number, function=function))
                at += 1

    def settle(self) -> list[Event]:
        """Something else follows: end the calls that are complete."""
        events: list[Event] = []
        while self._queue and self._queue[0].complete:
            events += self._queue.popleft().close(cut=False)
            events += self._advance()
        return events

    def finish(self, *, cut: bool) -> list[Event]:
        """No more fragments come; `cut` says that the upstream stopped at its token limit."""
        events: list[Event] = []
        while self._queue:
            call = self._queue[0]
            if call.name:
                events += call.stream()
            events += call.close(cut=cut)
            self._queue.popleft()
        self._waiting_chars = 0
        events += self._faults
        self._faults = []
        return events

    def _identify(
        self, index: int | None, call_id: str, name: str, fragment: str, alone: bool
    ) -> Call:
        call = self._newest if index is None else self._by_index.get(index)
        if call is None or (name and index is None and not alone):
            call = None
        elif call_id and call.id and call_id != call.id:
            call = self._by_id.get(call_id)  # the index is the same for every call
        elif not call_id and self._is_another(call, name, fragment):
            call = None
        if call is None:
            call = Call(self._limits, self.count)
            self.count += 1
            call.name, self._announced = self._announced, ""
            self._queue.append(call)
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id.setdefault(call_id, call)
        self._newest = call
        return call

    def _is_another(self, call: Call, name: str, fragment: str) -> bool:
        """Whether an entry without an id begins a call beside the one that its index names."""
        if name and call.name and name != call.name:
            return True
        begins = call.complete and fragment.strip() and not call.is_repeated(fragment)
        if name and call.complete and not fragment.strip():
            self._announced = name  # a call of the same tool, or just its name once more
        return bool(begins and (name or self._announced))

    def _advance(self) -> list[Event]:
        """Stream the first call; end it, and go on with the next, once it is complete."""
        events: list[Event] = []
        while self._queue:
            call = self._queue[0]
            if not call.name:
                break
            before = sum(map(len, call.waiting))
            events += call.stream()
            self.is_irregular = self.is_irregular or not call.is_plain
            self._waiting_chars -= before
            # The newest call stays open although complete: more of it would make it invalid.
            if call.failed or (call.complete and call is not self._queue[-1]):
                events += call.close(cut=False)
                self._queue.popleft()
            else:
                break
        if self._waiting_chars > self._limits.held_chars:
            raise LimitExceeded("held_chars", self._limits.held_chars)
        return events


def _text(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()
