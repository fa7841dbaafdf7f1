"""A transcript's parts, ready to be stored: bounded, redacted and packed.

Nearly always there is nothing to take out of them. That is found out of all at once, where they
are packed; only if it is not so, or cannot be known, each is looked at for itself.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from formats import Event, NoticeCode
from proxy.audit.capture import Capture, Clipped, clip
from proxy.audit.exchange import Exchange
from proxy.audit.transcripts.codec import Facts, Parts, facts_part, gather, press
from proxy.audit.transcripts.replay_input import packed_tools, reading_fields
from proxy.errors import UpstreamFailed
from proxy.models import Outcome
from proxy.security.redaction import MOST_WORD, WORD, Redactor, Trusting, storable, texts_of

# Of a client's headers, those that tell something and no secret.
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

# Notices of what became of a request: they say nothing of its answer.
_OF_REQUESTS = frozenset(
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
_WORD = WORD.encode()
_HEAD = 32
"""Bytes in which it shows whether a text begins with a secret."""


def packed_transcript(exchange: Exchange, redactor: Redactor) -> bytes:
    """What an exchange said, without secrets."""
    capture = exchange.capture
    assert capture is not None  # noqa: S101
    # Text that was dropped or not understood is in no event.
    is_told = exchange.outcome is Outcome.OK and exchange.stop_reason is not None
    is_told = is_told and _OF_REQUESTS.issuperset([notice.code for notice in exchange.notices])
    declared = exchange.reading.tools if exchange.reading else ()
    tools, tools_left_out = packed_tools(declared, redactor, capture.limit)
    if is_told and capture.is_whole and not (tools_left_out or redactor.count):
        trusting = Trusting()
        parts, is_whole = _parts(exchange, trusting, tools, is_told=True)
        room = gather(parts)
        if is_whole and not trusting.has_cut and _is_clean(room, parts, redactor):
            return press(room)
    parts, _ = _parts(exchange, redactor, tools, tools_left_out, is_told=is_told)
    return press(gather(parts))


def _is_clean(room: bytearray, parts: Parts, redactor: Redactor) -> bool:
    """Whether there is surely nothing to take out, given all parts in one piece."""
    # The length of a part stands in front of it, and may look like a letter of its first word.
    heads = b"\n".join([part[:_HEAD] for part in (parts.request, parts.raw, parts.sent)])
    return redactor.is_clean(heads) and redactor.is_clean_in_json(room)


def _parts(
    exchange: Exchange,
    redactor: Redactor,
    tools: bytes,
    tools_left_out: int = 0,
    *,
    is_told: bool,
) -> tuple[Parts, bool]:
    """The parts, and whether nothing is left out of them."""
    capture, route = exchange.capture, exchange.route
    assert capture is not None  # noqa: S101
    events, events_left_out = _events(capture, redactor)
    raw = capture.raw.take()
    if not raw[0] and isinstance(exchange.error, UpstreamFailed):
        raw = clip(exchange.error.raw, capture.limit)
    is_suspect = not is_told or bool(redactor.count or events_left_out[1])
    dialect = route.upstream.dialect if route else exchange.dialect
    clean_raw = _stream(raw, redactor, dialect, is_suspect=is_suspect)
    sent = _stream(capture.sent.take(), redactor, exchange.dialect, is_suspect=is_suspect)
    request = _bytes(capture.request, redactor)
    left_out = {
        name: [head, count]
        for name, head, count in (
            ("raw", *clean_raw[1:]),
            ("sent", *sent[1:]),
            ("request", *request[1:]),
            ("events", *events_left_out),
            ("tools", 0, tools_left_out),
        )
        if count
    }
    facts = Facts(
        headers={n: redactor.brief(v, 500) for n, v in exchange.headers.items()},
        reading=reading_fields(exchange, redactor, capture.limit),
        arrivals=_arrivals(capture.arrivals, raw, clean_raw),
        events=[[type(event).__name__, event] for event in events],
        left_out=left_out,
        redactions=redactor.count,
    )
    parts = Parts(
        request=request[0],
        tools=msgspec.Raw(tools),
        raw=clean_raw[0],
        sent=sent[0],
        facts=facts_part(facts),
    )
    return parts, not left_out


def event_fields(event: Event) -> list[Any]:
    """An event as stored: its name, and its fields."""
    return [type(event).__name__, storable(msgspec.to_builtins(event))]


def _events(capture: Capture, redactor: Redactor) -> tuple[list[Event], tuple[int, int]]:
    """Merged events; how many are before the gap, and how many reads or characters it has."""
    head, tail = capture.events.take()
    left_out = capture.events.left_out
    if not left_out:
        head, tail = [*head, *tail], []
    head, tail = redactor.events(head), redactor.events(tail)
    size = _size([*head, *tail])
    if size <= capture.limit:
        return [*head, *tail], (len(head), left_out)
    first, last = _beginning(head, capture.limit // 2), _end(tail or head, capture.limit // 2)
    return [*first, *last], (len(first), left_out + size - _size([*first, *last]))


def _size(events: Sequence[Event]) -> int:
    return sum([len(text) for event in events for text in texts_of(event).values()])


def _beginning(events: Sequence[Event], room: int) -> list[Event]:
    """As much of the events as there is room for; the last of them may be cut."""
    kept: list[Event] = []
    for event in events:
        texts = texts_of(event)
        kept.append(replace(event, **{n: t[:room] for n, t in texts.items()}) if texts else event)
        room -= _size([event])
        if room <= 0:
            break
    return kept


def _end(events: Sequence[Event], room: int) -> list[Event]:
    kept: list[Event] = []
    for event in reversed(events):
        texts = texts_of(event)
        kept.append(replace(event, **{n: t[-room:] for n, t in texts.items()}) if texts else event)
        room -= _size([event])
        if room <= 0:
            break
    return kept[::-1]


def _stream(clipped: Clipped, redactor: Redactor, dialect: str, *, is_suspect: bool) -> Clipped:
    """The bytes of an answer, in either direction."""
    data, head, left_out = clipped
    if not left_out:
        clean = redactor.stream(data, dialect, is_suspect=is_suspect)
        return clean, len(clean), 0
    first, last = _seam(data[:head], data[head:])
    first, last = redactor.stream(first, dialect, is_suspect=True), redactor.tail(last)
    return first + last, len(first), left_out


def _bytes(clipped: Clipped, redactor: Redactor) -> Clipped:
    data, head, left_out = clipped
    if not left_out:
        clean = redactor.redact(data)
        return clean, len(clean), 0
    first, last = map(redactor.redact, _seam(data[:head], data[head:]))
    return first + last, len(first), left_out


def _seam(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Without the words that the gap may have cut: half a secret is not recognised as one."""
    return (
        head[:-MOST_WORD] + head[-MOST_WORD:].rstrip(_WORD),
        tail[:MOST_WORD].lstrip(_WORD) + tail[MOST_WORD:],
    )


def _arrivals(
    arrivals: list[tuple[int, float]], raw: Clipped, clean: Clipped
) -> list[list[int | float]]:
    """Where each read begins in the bytes that are kept; none for what has no place there."""
    data, head, left_out = raw
    same = _common(data, clean[0])
    same_end = _common(data[same:][::-1], clean[0][same:][::-1])
    shift = len(clean[0]) - len(data)
    found: list[list[int | float]] = []
    for offset, moment in arrivals:
        if left_out and offset >= head:
            offset -= left_out
            if offset < head:
                continue
        if offset <= same:
            found.append([offset, round(moment, 1)])
        elif offset >= len(data) - same_end:
            found.append([offset + shift, round(moment, 1)])
    return found


def _common(one: bytes, other: bytes) -> int:
    """How many bytes they have in common at the beginning."""
    least, most = 0, min(len(one), len(other))
    if one == other:
        return most
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
