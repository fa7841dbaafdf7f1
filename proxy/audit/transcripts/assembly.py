"""Builds the transcript of an exchange: every part redacted, and truncated to the size limit.

A part over the limit keeps its head and its tail. At the cut, partial words are removed as well,
because half a secret is not recognised as one.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from formats import Event, NoticeCode, Tool
from proxy.audit.capture import Capture, Clipped, clip
from proxy.audit.exchange import Exchange
from proxy.audit.transcripts.codec import (
    TranscriptContent,
    request_text,
    stored_event,
    tool_fields,
)
from proxy.audit.transcripts.replay_input import replay_input
from proxy.errors import UpstreamFailed
from proxy.models import Outcome
from proxy.security.redaction import MAX_WORD, WORD, Redactor, storable_text, texts_of

# Client headers worth keeping. None of them carries a secret.
KEPT_HEADERS = (
    "user-agent",
    "anthropic-version",
    "anthropic-beta",
    "content-type",
    "x-app",
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-stainless-package-version",
    "x-stainless-retry-count",
)

# Notices about the request. They do not mean that text of the answer was lost.
_REQUEST_NOTICES = frozenset(
    {
        NoticeCode.BLANK_TEXT_DROPPED,
        NoticeCode.CALL_RESULT_SYNTHESIZED,
        NoticeCode.CONTENT_LARGE,
        NoticeCode.FIELD_DROPPED,
        NoticeCode.HISTORY_SANITISED,
        NoticeCode.LIMIT_CLAMPED,
        NoticeCode.MESSAGE_MOVED,
        NoticeCode.NAME_SHORTENED,
        NoticeCode.REASONING_DROPPED,
        NoticeCode.REASONING_PLACEHOLDER,
        NoticeCode.SERVER_TOOL_DROPPED,
        NoticeCode.SHAPE_TRANSLATED,
    }
)
_WORD = WORD.encode() + b"\\"
_MAX_WORD = 6 * MAX_WORD
"""An escape has six characters for one."""
_MAX_NAMES = 1000
"""Names of tools that are kept if their schemas are over the limit."""


def transcript_of(exchange: Exchange) -> TranscriptContent:
    """The content of an exchange that was captured, without secrets."""
    capture, route, redactor = exchange.capture, exchange.answer.route, exchange.redactor
    count = redactor.count
    declared = exchange.answer.decoding.tools if exchange.answer.decoding else ()
    assert capture is not None  # noqa: S101
    tools, tools_left_out = _tools(declared, redactor, capture.limit)
    events, events_left_out = _events(capture, redactor)
    raw = capture.raw.get()
    if not raw.data and isinstance(exchange.error, UpstreamFailed):
        raw = clip(exchange.error.raw, capture.limit)
    # A secret that is split across chunks is visible in the events, if they have the whole text.
    is_suspect = redactor.count > count or bool(events_left_out[1]) or not _has_all_text(exchange)
    dialect = route.upstream.dialect if route else exchange.dialect
    clean_raw = _stream(raw, redactor, dialect, is_suspect=is_suspect)
    sent = _stream(capture.sent.get(), redactor, exchange.dialect, is_suspect=is_suspect)
    request = _bytes(capture.request, redactor)
    left_out = {
        "raw": [clean_raw.head, clean_raw.missing],
        "sent": [sent.head, sent.missing],
        "request": [request.head, request.missing],
        "events": [*events_left_out],
        "tools": [0, tools_left_out],
    }
    return TranscriptContent(
        headers={n: redactor.redact_start(v, 500) for n, v in exchange.request.headers.items()},
        request=request_text(request.data),
        tools=tools,
        reading=replay_input(exchange, redactor, capture.limit),
        raw=clean_raw.data,
        arrivals=_arrivals(capture.arrivals, raw, clean_raw),
        events=[stored_event(event) for event in events],
        sent=sent.data,
        left_out={name: [head, missing] for name, (head, missing) in left_out.items() if missing},
        redactions=redactor.count - count,
    )


def _has_all_text(exchange: Exchange) -> bool:
    """Return whether the events have all text of the answer. They lack text that was dropped."""
    if exchange.outcome is not Outcome.OK or exchange.answer.stop_reason is None:
        return False
    return _REQUEST_NOTICES.issuperset([notice.code for notice in exchange.answer.notices])


def _tools(
    tools: Sequence[Tool], redactor: Redactor, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """The declared tools, and how many bytes of schemas are left out."""
    size = sum([len(tool.schema) for tool in tools])
    if size > limit:
        names = [
            storable_text(redactor.redact_start(tool.name, 200)) for tool in tools[:_MAX_NAMES]
        ]
        return [tool_fields(name, b"{}", is_custom=False) for name in names], size
    return [
        tool_fields(
            storable_text(redactor.redact_text(tool.name)),
            redactor.redact_bytes(tool.schema),
            is_custom=tool.is_custom,
        )
        for tool in tools
    ], 0


def _events(capture: Capture, redactor: Redactor) -> tuple[list[Event], tuple[int, int]]:
    """Merged events; how many are before the cut, and how many reads or characters are missing."""
    head, tail = capture.events.get()
    left_out = capture.events.left_out
    if not left_out:
        head, tail = [*head, *tail], []
    head, tail = redactor.redact_events(head), redactor.redact_events(tail)
    size = _size([*head, *tail])
    if size <= capture.limit:
        return [*head, *tail], (len(head), left_out)
    first, last = (
        _first_events(head, capture.limit // 2),
        _last_events(tail or head, capture.limit // 2),
    )
    return [*first, *last], (len(first), left_out + size - _size([*first, *last]))


def _size(events: Sequence[Event]) -> int:
    return sum([len(text) for event in events for text in texts_of(event).values()])


def _first_events(events: Sequence[Event], room: int) -> list[Event]:
    """The first events that have `room` characters; the last of them may be truncated."""
    kept: list[Event] = []
    for event in events:
        texts = texts_of(event)
        kept.append(replace(event, **{n: t[:room] for n, t in texts.items()}) if texts else event)
        room -= _size([event])
        if room <= 0:
            break
    return kept


def _last_events(events: Sequence[Event], room: int) -> list[Event]:
    kept: list[Event] = []
    for event in reversed(events):
        texts = texts_of(event)
        kept.append(replace(event, **{n: t[-room:] for n, t in texts.items()}) if texts else event)
        room -= _size([event])
        if room <= 0:
            break
    return kept[::-1]


def _stream(clipped: Clipped, redactor: Redactor, dialect: str, *, is_suspect: bool) -> Clipped:
    """Redact the bytes of an answer."""
    data, head, missing = clipped
    if not missing:
        clean = redactor.redact_stream(data, dialect, is_suspect=is_suspect)
        return Clipped(clean, len(clean), 0)
    first, last = _without_partial_words(data[:head], data[head:])
    first, last = (
        redactor.redact_stream(first, dialect, is_suspect=True),
        redactor.redact_stream_tail(last),
    )
    return Clipped(first + last, len(first), missing)


def _bytes(clipped: Clipped, redactor: Redactor) -> Clipped:
    data, head, missing = clipped
    if not missing:
        clean = redactor.redact_bytes(data)
        return Clipped(clean, len(clean), 0)
    first, last = map(redactor.redact_bytes, _without_partial_words(data[:head], data[head:]))
    return Clipped(first + last, len(first), missing)


def _without_partial_words(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    return (
        head[:-_MAX_WORD] + head[-_MAX_WORD:].rstrip(_WORD),
        tail[:_MAX_WORD].lstrip(_WORD) + tail[_MAX_WORD:],
    )


def _arrivals(
    arrivals: list[tuple[int, float]], raw: Clipped, clean: Clipped
) -> list[list[int | float]]:
    """Offsets of reads in the redacted bytes. Reads that begin in a changed region are skipped."""
    data, head, missing = raw
    same = _common_prefix(data, clean.data)
    same_end = _common_prefix(data[same:][::-1], clean.data[same:][::-1])
    shift = len(clean.data) - len(data)
    placed: list[list[int | float]] = []
    for offset, milliseconds in arrivals:
        if missing and offset >= head:
            offset -= missing
            if offset < head:
                continue
        if offset <= same:
            placed.append([offset, round(milliseconds, 1)])
        elif offset >= len(data) - same_end:
            placed.append([offset + shift, round(milliseconds, 1)])
    return placed


def _common_prefix(one: bytes, other: bytes) -> int:
    """The length of the longest common prefix."""
    low, high = 0, min(len(one), len(other))
    if one == other:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
