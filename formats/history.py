"""Puts the history of a conversation into the order that all upstreams require.

Results directly follow the message with the calls, in the order of the calls; other parts of a
user's message come after its results. A call without a result gets one that says it was
interrupted. Ids are derived from the request alone, so that the same conversation always
renders to the same bytes.
"""

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from formats.conversation import Message, Part, Role, Text, ToolCall, ToolResult
from formats.errors import ClientError
from formats.events import Notice, NoticeCode

INTERRUPTED = "The call was interrupted: no result was recorded."
_OF_TOOLS = frozenset({ToolCall, ToolResult})
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def order_results(messages: Iterable[Message], notices: list[Notice]) -> list[Message]:
    """Move each result after its call; raises ClientError for a result of an unknown call."""
    turns = [_Turn()]
    turn_of: dict[str, _Turn] = {}
    for message in messages:
        calls = [part for part in message.parts if type(part) is ToolCall]
        if calls:
            turn = _Turn(message, calls)
            turns.append(turn)
            for call in calls:
                turn_of[call.id] = turn
            continue
        results = [part for part in message.parts if type(part) is ToolResult]
        if not results:
            if message.parts:
                turns[-1].after.append(message)
            continue
        rest: list[Part] = []
        for part in message.parts:
            if type(part) is not ToolResult:
                rest.append(part)
                continue
            if part.call_id not in turn_of:
                raise ClientError(
                    f"tool result references unknown tool call id {part.call_id!r}",
                    path=message.path,
                )
            turn = turn_of[part.call_id]
            if rest or turn.after or turn is not turns[-1]:
                notices.append(Notice(NoticeCode.MESSAGE_MOVED, f"the result of {part.call_id}"))
            turn.results[part.call_id].append(part)
        if rest:
            turns[-1].after.append(replace(message, parts=tuple(rest)))
    return [message for turn in turns for message in turn.settled(notices)]


class _Turn:
    """A message with calls, their results, and the messages before the next such message."""

    def __init__(self, message: Message | None = None, calls: Sequence[ToolCall] = ()) -> None:
        self.after: list[Message] = []
        self.results: dict[str, list[ToolResult]] = {call.id: [] for call in calls}
        self._message = message
        self._calls = calls

    def settled(self, notices: list[Notice]) -> list[Message]:
        if self._message is None:
            return self.after
        results: list[Part] = []
        for call in self._calls:
            if answers := self.results[call.id]:
                results.append(answers.pop(0))
            else:
                notices.append(Notice(NoticeCode.CALL_RESULT_SYNTHESIZED, call.id))
                results.append(ToolResult(call.id, (Text(INTERRUPTED),), is_error=True))
        for call_id, surplus in self.results.items():
            if surplus:
                notices.append(Notice(NoticeCode.HISTORY_SANITISED, f"two results of {call_id}"))
        return [self._message, Message(Role.USER, tuple(results)), *self.after]


def make_ids_safe(messages: Iterable[Message]) -> list[Message]:
    """Replace invalid or repeated ids, which Anthropic rejects. Call `order_results` first."""
    uses: Counter[str] = Counter()
    out: list[Message] = []
    renamed: deque[str] = deque()  # ids of the newest calls, in the order of their results
    for message in messages:
        if message.role is Role.ASSISTANT:
            renamed = deque()
        if _OF_TOOLS.isdisjoint(map(type, message.parts)):
            out.append(message)
            continue
        parts: list[Part] = []
        for part in message.parts:
            if type(part) is ToolCall:
                renamed.append(_safe_id(part.id, uses))
                parts.append(replace(part, id=renamed[-1]))
            elif type(part) is ToolResult and renamed:
                parts.append(replace(part, call_id=renamed.popleft()))
            else:
                parts.append(part)
        out.append(Message(message.role, tuple(parts), message.path))
    return out


def _safe_id(call_id: str, uses: Counter[str]) -> str:
    known = _UNSAFE.sub("_", call_id)
    if known != call_id or not known:
        known = f"{known}_{hashlib.sha256(call_id.encode()).hexdigest()[:8]}"
    uses[known] += 1
    return known if uses[known] == 1 else f"{known}_{uses[known]}"
