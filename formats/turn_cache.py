"""Cache of all fields of a request except its messages, between the turns of a session.

A client sends its system prompt, tools and settings again with every turn, and they are most of the
bytes. A body with the same beginning and the same end as an earlier one differs from it only in its
messages. If those are one JSON value, the other fields equal the cached ones and are not parsed
again. The messages' parser checks that they are one value.

It saves 60 µs of the 790 µs of CPU that a request of scenario B takes (bench/README.md), or 8 %.

Only requests that a parser accepted are kept, and only from the second request with the same end
on, because requests that never repeat would fill the cache. Messages are never kept.
"""

from msgspec import Raw, Struct

from formats.complexity import Complexity, Fields
from formats.conversation import Conversation
from formats.events import Notice
from formats.json_splice import value_spans

_TAIL = 256
"""Last bytes of a body, by which it is looked up. Claude Code has its session id there."""
_MIN_BYTES = 4096  # smaller requests are parsed as fast as they are compared
_MAX_BYTES = 256 * 1024  # Claude Code's are 60 to 120 KB
_MAX_TOTAL_BYTES = 16 * 1024 * 1024  # about fifty sessions
_COPIES = 3  # the text is kept whole, by fields, and parsed
_VALUE_BYTES = 100  # upper bound of a value's memory besides its text
_MAX_FIELDS = 64  # a field takes more memory than other values; an unknown one has a notice
_EMPTY_ENTRY_BYTES = 1024  # upper bound of the memory of an entry without requests
_MAX_PER_TAIL = 4
"""Requests with the same end: a session's own, and those of its subagents. If every request has
a different system prompt, the fifth is not kept."""
_NULL = Raw(b"null")
_SPACE = b" \t\r\n"


class RequestSettings(Struct, frozen=True):
    """Everything in a request except its messages."""

    conversation: Conversation
    """Has no messages, and the notices that come before those of the messages."""
    later_notices: tuple[Notice, ...]
    """The notices that come after those of the messages."""


class CachedTurn(Struct, frozen=True):
    """The fields of a body, with its own messages, and the settings of the cached request."""

    fields: Fields
    settings: RequestSettings


class _Entry(Struct, frozen=True):
    before: bytes
    after: bytes
    fields: Fields
    settings: RequestSettings


class TurnCache:
    """Requests of one dialect without their messages, by the end of their bodies."""

    def __init__(self) -> None:
        self._entries: dict[tuple[bytes, Complexity], list[_Entry]] = {}
        self._size = 0

    def lookup(self, body: bytes, max_complexity: Complexity) -> CachedTurn | None:
        """Find a request that differs from `body` only in its messages, which are not checked."""
        for entry in self._entries.get((body[-_TAIL:], max_complexity), ()):
            before, after = entry.before, entry.after
            end = len(body) - len(after)
            if end >= len(before) and body.startswith(before) and body.endswith(after):
                messages = Raw(body[len(before) : end].strip(_SPACE))
                return CachedTurn(entry.fields | {"messages": messages}, entry.settings)
        return None

    def store(
        self, body: bytes, fields: Fields, max_complexity: Complexity, settings: RequestSettings
    ) -> None:
        """Keep a parsed request, if an earlier one ended the same way."""
        if len(body) < _MIN_BYTES or len(fields) > _MAX_FIELDS:
            return
        key = (body[-_TAIL:], max_complexity)
        entries = self._entries.get(key)
        if entries is None:
            self._make_room(_EMPTY_ENTRY_BYTES)
            self._entries[key] = []
        elif len(entries) < _MAX_PER_TAIL and (
            span := (value_spans(body, fields) or {}).get("messages")
        ):
            before, after = body[: span[0]], body[span[1] :]
            size = len(before) + len(after)
            if len(after) >= _TAIL and _MIN_BYTES <= size <= _MAX_BYTES:
                # Copies, because fields are views of the body and would keep its messages alive.
                copies = {name: Raw(bytes(value)) for name, value in fields.items()}
                copies["messages"] = _NULL
                values = before.count(b",") + after.count(b",")
                self._make_room(_COPIES * size + _VALUE_BYTES * values)
                entry = _Entry(before, after, copies, settings)
                self._entries.setdefault(key, []).append(entry)

    def _make_room(self, size: int) -> None:
        if self._size + size > _MAX_TOTAL_BYTES:
            self._entries.clear()
            self._size = 0
        self._size += size
