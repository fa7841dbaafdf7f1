"""What stands in a request from turn to turn: all of it but its messages.

A client sends its system prompt, its tools and its settings again with every turn, and they are
most of the bytes. A body that begins and ends as an earlier one did differs from it in nothing but
its messages: if those are one JSON value, the other fields are the earlier ones, and need not be
read again. Whether the messages are one is for their parser to say.

Only what a parser has accepted is kept, and only when something like it comes a second time, as
what comes once would fill the memory for nothing. Deliberately absent: messages, and what is made
of them.
"""

from msgspec import Raw, Struct

from formats.complexity import Complexity, Fields
from formats.conversation import Conversation
from formats.events import Notice
from formats.json_splice import value_spans

_TAIL = 256
"""Bytes of its end that a body is known again by: Claude Code has its session's id there."""
_SMALLEST = 4096  # less is read as fast as it is compared
_LARGEST = 256 * 1024  # Claude Code's own have 60 to 120 KB
_MOST = 16 * 1024 * 1024  # of all that is kept, for about fifty sessions
_COPIES = 3  # of a text that are kept: as it is, by its fields, and what was made of it
_VALUE = 100  # bytes of a value, at most, beside its text
_MOST_FIELDS = 64  # each takes more than other values do, and an unknown one has a notice
_NOTED = 1024  # what a tail takes of which nothing is kept yet, generously
_ALIKE = 4
"""Requests that end alike, as those of one session do: its own, and its subagents'. Where every
request has another prompt, the fifth is not kept any more."""
_NULL = Raw(b"null")
_SPACE = b" \t\r\n"


class RequestSettings(Struct, frozen=True):
    """What a request asks for beside its messages."""

    conversation: Conversation
    """Without messages, and with the notices of what comes before them."""
    behind: tuple[Notice, ...]
    """The notices of what comes behind them."""


class Turn(Struct, frozen=True):
    """A body that is like an earlier one."""

    fields: Fields
    rest: RequestSettings


class _Known(Struct, frozen=True):
    before: bytes
    after: bytes
    fields: Fields
    rest: RequestSettings


class TurnCache:
    """Requests of one dialect, without their messages, by how their bodies end."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, Complexity], list[_Known]] = {}
        self._size = 0

    def lookup(self, body: bytes, max_complexity: Complexity) -> Turn | None:
        """The body's fields, if what stands in it is known; its messages may be anything."""
        for known in self._known.get((body[-_TAIL:], max_complexity), ()):
            before, after = known.before, known.after
            end = len(body) - len(after)
            if end >= len(before) and body.startswith(before) and body.endswith(after):
                messages = Raw(body[len(before) : end].strip(_SPACE))
                return Turn(known.fields | {"messages": messages}, known.rest)
        return None

    def store(
        self, body: bytes, fields: Fields, max_complexity: Complexity, rest: RequestSettings
    ) -> None:
        """Remember what was made of a body that is not known, if others have ended so."""
        if len(body) < _SMALLEST or len(fields) > _MOST_FIELDS:
            return
        tail = body[-_TAIL:]
        alike = self._known.get((tail, max_complexity))
        if alike is None:
            self._make_room(_NOTED)
            self._known[tail, max_complexity] = []
        elif len(alike) < _ALIKE and (found := (value_spans(body, fields) or {}).get("messages")):
            before, after = body[: found[0]], body[found[1] :]
            size = len(before) + len(after)
            if len(after) >= _TAIL and _SMALLEST <= size <= _LARGEST:
                # Copies: the fields of a body are views of it, and would keep its messages.
                copies = {name: Raw(bytes(value)) for name, value in fields.items()}
                copies["messages"] = _NULL
                values = before.count(b",") + after.count(b",")
                self._make_room(_COPIES * size + _VALUE * values)
                known = _Known(before, after, copies, rest)
                self._known.setdefault((tail, max_complexity), []).append(known)

    def _make_room(self, size: int) -> None:
        if self._size + size > _MOST:
            self._known.clear()
            self._size = 0
        self._size += size
