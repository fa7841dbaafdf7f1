"""A stored answer, read again with today's code, and what became of it.

No network, and nothing stored is changed: what comes out is a row of its own, which the caller
saves. An answer that passed as text although it had native markup counts as failing, so that the
format which understands it is said to fix it.
"""

from typing import Any

from formats import (
    FORMATS,
    Event,
    Limits,
    MarkupWatch,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    NoticeCode,
    merge_deltas,
)
from proxy.audit.transcripts.codec import TranscriptContent, Unreadable, load_event, stored_event
from proxy.audit.transcripts.replay_input import DecodedAnswer, decode_again
from proxy.configuration.routing import detected_format
from proxy.configuration.snapshot import FormatRow, Snapshot, load
from proxy.models import FAILURES, Exchange, Replay, Transcript
from proxy.security.redaction import storable

_SEPARATORS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class NotReplayable(Exception):
    """There is no answer that could be read again; the message says why."""


def replay(
    exchange: Exchange,
    *,
    format_name: str | None = None,
    held_chars: int | None = None,
    strict: bool | None = None,
    author: Any = None,
    snapshot: Snapshot | None = None,
    transcript: Transcript | None = None,
) -> Replay:
    """Read an exchange's answer again; the row is not saved. Raises NotReplayable.

    The format is the one given, else today's for the model; limit and strictness are those given,
    else that format's today. The transcript is the stored one, unless one is given.
    """
    said = readable(transcript) if transcript else stored_answer(exchange)
    snapshot = snapshot or load()
    name = format_name or today_format(exchange, snapshot)
    if name not in FORMATS:
        raise NotReplayable(f"there is no format {name!r}")
    row = snapshot.formats.get(name, FormatRow())
    limit = held_chars or row.buffer_limit or Limits().held_chars
    is_strict = row.strict if strict is None else strict
    reading = said.reading | {
        "format": name,
        "held_chars": limit,
        "strict": is_strict,
        "markers": [list(pair) for pair in row.markers],
    }
    again = decode_again(raw_answer(said), reading, said.tools)
    failure = again.failure
    return Replay(
        exchange=exchange,
        author=author,
        format=name,
        buffer_limit=limit,
        strict=is_strict,
        configuration_version=snapshot.version,
        result=judge(exchange, said, again),
        error=storable(f"{failure.kind}: {failure.message}")[:500] if failure else "",
        events=[stored_event(event) for event in again.events],
        sent=again.sent,
    )


def stored_answer(exchange: Exchange) -> TranscriptContent:
    """What an exchange said that can be read again; raises NotReplayable."""
    transcript = Transcript.objects.filter(exchange=exchange).first()
    if transcript is None:
        raise NotReplayable("no transcript of this exchange was kept")
    return readable(transcript)


def readable(transcript: Transcript) -> TranscriptContent:
    """What a transcript has, if there is an answer in it; raises NotReplayable."""
    try:
        said = transcript.content
    except Unreadable as error:
        raise NotReplayable(f"its transcript cannot be read: {error}") from error
    if not said.raw or not said.reading:
        raise NotReplayable("the upstream sent no answer that could be read")
    return said


def today_format(exchange: Exchange, snapshot: Snapshot) -> str:
    """The format that the exchange's model would be read with now."""
    model = exchange.upstream_model or exchange.model
    return detected_format(snapshot, model, requested=exchange.model).format


def raw_answer(said: TranscriptContent) -> bytes:
    """The upstream's bytes; of a clipped answer, the whole events of head and tail."""
    if said.reading.get("is_whole"):
        return said.raw
    return _whole_events(said.raw, said.left_out.get("raw"))


def sent_answer(said: TranscriptContent) -> bytes:
    """The same of what the client got."""
    return _whole_events(said.sent, said.left_out.get("sent"))


def _whole_events(data: bytes, clipped: list[int] | None) -> bytes:
    if not clipped:
        return data
    head, tail = data[: clipped[0]], data[clipped[0] :]
    end = max(head.rfind(mark) + len(mark) if mark in head else 0 for mark in _SEPARATORS)
    starts = [tail.find(mark) + len(mark) for mark in _SEPARATORS if mark in tail]
    return head[:end] + tail[min(starts, default=len(tail)) :]


def judge(exchange: Exchange, said: TranscriptContent, again: DecodedAnswer) -> Replay.Result:
    """What an answer that was read again has become, compared with how it was read."""
    before = events_before(said)
    was_failing = is_failing(exchange) or _fails(before)
    fails = _fails(again.events)
    if was_failing:
        return Replay.Result.STILL_FAILING if fails else Replay.Result.FIXED
    if fails:
        return Replay.Result.NEWLY_BROKEN
    is_same = _gist(before) == _gist(again.events)
    return Replay.Result.SAME if is_same else Replay.Result.DIFFERENT


def is_failing(exchange: Exchange) -> bool:
    return exchange.outcome in FAILURES or bool(exchange.leaked_format)


def markup_of(events: list[Event]) -> str:
    """The format whose markup is in the text of an answer, whatever it was read as."""
    watched = MarkupWatch().feed(events)
    seen = (e.detail for e in watched if isinstance(e, Notice) and _is_markup(e))
    return next(seen, "")


def events_before(said: TranscriptContent) -> list[Event]:
    """How the answer was read; where that is not stored whole, as it would be with that setting."""
    stored = said.events
    is_whole = bool(stored) and stored[-1][0] in (MessageEnd.__name__, MessageFailed.__name__)
    if is_whole and said.left_out.keys().isdisjoint(("raw", "events")):
        return [load_event(fields) for fields in stored]
    return decode_again(raw_answer(said), said.reading, said.tools).events


def _fails(events: list[Event]) -> bool:
    return bool(events) and (isinstance(events[-1], MessageFailed) or bool(markup_of(events)))


def _is_markup(notice: Notice) -> bool:
    return notice.code is NoticeCode.NATIVE_MARKUP_SEEN


def _gist(events: list[Event]) -> list[Event]:
    """What a client would notice: no notices, no names of the message, no counts."""
    gist: list[Event] = []
    for event in events:
        if isinstance(event, MessageEnd):
            gist.append(MessageEnd(event.stop_reason, event.stop_sequence))
        elif not isinstance(event, Notice | MessageStart):
            gist.append(event)
    return merge_deltas(gist)
