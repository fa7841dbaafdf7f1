"""Replays a stored answer: decodes it again with this version's code, and compares the results.

A replay uses no network and changes nothing that is stored. The result is a new row, which the
caller saves. An answer whose native markup reached the client as text counts as failing, so the
format that decodes it counts as a fix.
"""

from typing import Any

from formats import (
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
from proxy.configuration.routing import format_of_model
from proxy.configuration.snapshot import FormatRow, Snapshot, load
from proxy.models import FAILURES, Exchange, Replay, Transcript
from proxy.security.redaction import storable

_SEPARATORS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class NotReplayable(Exception):
    """There is no answer to replay. The message says why."""


def replay(
    exchange: Exchange,
    *,
    format_name: str | None = None,
    held_chars: int | None = None,
    strict: bool | None = None,
    split_thinking: str | None = None,
    definition: str | None = None,
    author: Any = None,
    snapshot: Snapshot | None = None,
    transcript: Transcript | None = None,
) -> Replay:
    """Replay an exchange; the row is not saved. Raises NotReplayable.

    Defaults: the model's current format, with the current buffer limit, strictness and splitting
    of thinking of that format, and the stored transcript. `definition` is the text of a format that
    is not saved yet.
    """
    content = replayable_content(transcript or _stored_transcript(exchange))
    snapshot = snapshot or load()
    name = format_name or current_format(exchange, snapshot)
    if definition is None and name in snapshot.definitions:
        definition = snapshot.definitions[name].text
    if definition is None and not snapshot.has_format(name):
        raise NotReplayable(f"there is no format {name!r}")
    row = snapshot.formats.get(name, FormatRow())
    limit = held_chars or row.buffer_limit or Limits().held_chars
    is_strict = row.strict if strict is None else strict
    reading = content.reading | {
        "format": name,
        "held_chars": limit,
        "strict": is_strict,
        "split_thinking": split_thinking or row.split_thinking,
        "definition": definition,
        "markers": [list(pair) for pair in row.markers],
    }
    replayed = decode_again(raw_answer(content), reading, content.tools)
    failure = replayed.failure
    return Replay(
        exchange=exchange,
        author=author,
        format=name,
        buffer_limit=limit,
        strict=is_strict,
        split_thinking=reading["split_thinking"],
        definition=definition,
        configuration_version=snapshot.version,
        result=compare(exchange, content, replayed),
        error=storable(f"{failure.kind}: {failure.message}")[:500] if failure else "",
        events=[stored_event(event) for event in replayed.events],
        sent=replayed.sent,
    )


def _stored_transcript(exchange: Exchange) -> Transcript:
    transcript = Transcript.objects.filter(exchange=exchange).first()
    if transcript is None:
        raise NotReplayable("no transcript of this exchange was kept")
    return transcript


def replayable_content(transcript: Transcript) -> TranscriptContent:
    """The content of a transcript that has an answer; raises NotReplayable."""
    try:
        content = transcript.content
    except Unreadable as error:
        raise NotReplayable(f"its transcript cannot be read: {error}") from error
    if not content.raw or not content.reading:
        raise NotReplayable("the upstream sent no answer")
    return content


def current_format(exchange: Exchange, snapshot: Snapshot) -> str:
    """The format that the current configuration gives the exchange's model."""
    model = exchange.upstream_model or exchange.model
    return format_of_model(snapshot, model, requested=exchange.model).format


def raw_answer(content: TranscriptContent) -> bytes:
    """The upstream's answer. If it was clipped: the complete events of its head and tail."""
    if content.reading.get("is_whole"):
        return content.raw
    return _whole_events(content.raw, content.left_out.get("raw"))


def sent_answer(content: TranscriptContent) -> bytes:
    """The answer to the client. If it was clipped: the complete events of its head and tail."""
    return _whole_events(content.sent, content.left_out.get("sent"))


def _whole_events(data: bytes, clipped: list[int] | None) -> bytes:
    if not clipped:
        return data
    head, tail = data[: clipped[0]], data[clipped[0] :]
    end = max(head.rfind(mark) + len(mark) if mark in head else 0 for mark in _SEPARATORS)
    starts = [tail.find(mark) + len(mark) for mark in _SEPARATORS if mark in tail]
    return head[:end] + tail[min(starts, default=len(tail)) :]


def compare(
    exchange: Exchange, content: TranscriptContent, replayed: DecodedAnswer
) -> Replay.Result:
    """Compare a replayed answer with the original decoding."""
    before = original_events(content)
    was_failing = is_failing(exchange) or _fails(before)
    fails = _fails(replayed.events)
    if was_failing:
        return Replay.Result.STILL_FAILING if fails else Replay.Result.FIXED
    if fails:
        return Replay.Result.NEWLY_BROKEN
    is_same = _client_view(before) == _client_view(replayed.events)
    return Replay.Result.SAME if is_same else Replay.Result.DIFFERENT


def is_failing(exchange: Exchange) -> bool:
    return exchange.outcome in FAILURES or bool(exchange.leaked_format)


def leaked_markup(events: list[Event]) -> str:
    """The format whose markup is in the text of an answer; empty if there is none.

    Decoding has noticed markup of other formats; a format's own markup may remain, too.
    """
    watched = [*events, *MarkupWatch().feed(events)]
    seen = (e.detail for e in watched if isinstance(e, Notice) and _is_markup(e))
    return next(seen, "")


def original_events(content: TranscriptContent) -> list[Event]:
    """The stored events; if these are incomplete, the answer decoded with its original settings."""
    stored = content.events
    is_whole = bool(stored) and stored[-1][0] in (MessageEnd.__name__, MessageFailed.__name__)
    if is_whole and content.left_out.keys().isdisjoint(("raw", "events")):
        return [load_event(fields) for fields in stored]
    return decode_again(raw_answer(content), content.reading, content.tools).events


def _fails(events: list[Event]) -> bool:
    return bool(events) and (isinstance(events[-1], MessageFailed) or bool(leaked_markup(events)))


def _is_markup(notice: Notice) -> bool:
    return notice.code is NoticeCode.NATIVE_MARKUP_SEEN


def _client_view(events: list[Event]) -> list[Event]:
    """The events as a client sees them: without notices, message ids and token counts."""
    view: list[Event] = []
    for event in events:
        if isinstance(event, MessageEnd):
            view.append(MessageEnd(event.stop_reason, event.stop_sequence))
        elif not isinstance(event, Notice | MessageStart):
            view.append(event)
    return merge_deltas(view)
