"""The history of a conversation, put into the order that every upstream insists on.

Results follow the message that made the calls, in the order of the calls, and nothing stands
between them; other parts of a user's message come after its results. A call that was never answered
gets a result that says so. Ids and names are rewritten here, from the request alone, so that the
same conversation always renders to the same bytes.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from formats.conversation import Conversation, Message, Part, Role, Text, ToolCall, ToolResult
from formats.errors import ClientError
from formats.events import Notice, NoticeCode

INTERRUPTED = "The call was interrupted: no result was recorded."
NAME_CHARS = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def ordered(messages: Iterable[Message], notices: list[Notice]) -> list[Message]:
    """The messages with every result behind its call; raises ClientError for an unknown id."""
    turns = [_Turn()]
    turn_of: dict[str, _Turn] = {}
    for message in messages:
        kinds = set(map(type, message.parts))
        if ToolCall in kinds:
            calls = [part for part in message.parts if isinstance(part, ToolCall)]
            turns.append(_Turn(message, calls))
            turn_of |= dict.fromkeys((call.id for call in calls), turns[-1])
            continue
        if ToolResult not in kinds:
            if message.parts:
                turns[-1].after.append(message)
            continue
        rest: list[Part] = []
        for part in message.parts:
            if not isinstance(part, ToolResult):
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
    """A message with calls, their results, and what came before the next such message."""

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


def numbered_ids(messages: Iterable[Message], shown: Callable[[str], str]) -> list[Message]:
    """Ordered messages with the ids that Kimi writes itself: `functions.NAME:N`, counted up.

    `shown` is the name of a tool as the upstream knows it.
    """
    count = -1

    def native(call: ToolCall) -> str:
        nonlocal count
        count += 1
        return f"functions.{shown(call.name)}:{count}"

    return _renamed_ids(messages, native)


def safe_ids(messages: Iterable[Message]) -> list[Message]:
    """Ordered messages with ids that Anthropic accepts: of its alphabet, and each used once."""
    uses: Counter[str] = Counter()

    def safe(call: ToolCall) -> str:
        known = _UNSAFE.sub("_", call.id)
        if known != call.id or not known:
            known = f"{known}_{hashlib.sha256(call.id.encode()).hexdigest()[:8]}"
        uses[known] += 1
        return known if uses[known] == 1 else f"{known}_{uses[known]}"

    return _renamed_ids(messages, safe)


def _renamed_ids(messages: Iterable[Message], rename: Callable[[ToolCall], str]) -> list[Message]:
    out: list[Message] = []
    renamed: list[str] = []  # of the newest calls, in the order of their results
    for message in messages:
        parts: list[Part] = []
        if message.role is Role.ASSISTANT:
            renamed = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                renamed.append(rename(part))
                part = replace(part, id=renamed[-1])
            elif isinstance(part, ToolResult) and renamed:
                part = replace(part, call_id=renamed.pop(0))
            parts.append(part)
        out.append(replace(message, parts=tuple(parts)))
    return out


class Names:
    """Tool names as an upstream with a limit of 64 characters may see them."""

    def __init__(self, conversation: Conversation, notices: list[Notice]) -> None:
        self.aliases: dict[str, str] = {}
        for tool in conversation.tools:
            short = self.short(tool.name)
            if short != tool.name:
                self.aliases[short] = tool.name
                notices.append(Notice(NoticeCode.NAME_SHORTENED, f"{tool.name} → {short}"))

    def short(self, name: str) -> str:
        if len(name) <= NAME_CHARS:
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        return f"{name[: NAME_CHARS - 9]}_{digest}"
