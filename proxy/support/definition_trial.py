"""Tries a format's definition on the stored answers of a model whose calls reached the client.

Nothing is stored. The number of answers and the time are limited, because a page waits for it.
"""

from dataclasses import dataclass, field
from time import monotonic

from django.db.models import Q

from formats import Definition, ToolCallEnd
from proxy.audit.transcripts.codec import load_event
from proxy.configuration.snapshot import load
from proxy.models import Exchange, Replay
from proxy.support.exchange_filters import LEAK_FORMATS
from proxy.support.replay import NotReplayable, replay, replayable_content

MAX_ANSWERS = 40
_MAX_SECONDS = 5.0
_MAX_ANSWER_BYTES = 256 * 1024
"""A longer answer could take minutes, and the time is only looked at between answers."""
UNSAVED = "this format"


@dataclass(slots=True)
class Trial:
    calls: int = 0
    """Answers whose calls are read."""
    others: list[tuple[Exchange, str]] = field(default_factory=list)
    """The other answers, with the reason."""
    left_out: int = 0
    """Answers that were not tried, because the time was over."""

    @property
    def tried(self) -> int:
        return self.calls + len(self.others)


def try_on_stored(definition: Definition, model: str) -> Trial:
    """Decode the newest leaked answers of a model, by its name for the client or the upstream."""
    leaked = Exchange.objects.filter(
        Q(upstream_model=model) | Q(model=model),
        leaked_format__in=LEAK_FORMATS,
        transcript__isnull=False,
    )
    exchanges = [*leaked.order_by("-id")[:MAX_ANSWERS]]
    trial, snapshot, end = Trial(), load(), monotonic() + _MAX_SECONDS
    for number, exchange in enumerate(exchanges):
        if monotonic() > end:
            trial.left_out = len(exchanges) - number
            break
        try:
            if len(replayable_content(exchange.transcript).raw) > _MAX_ANSWER_BYTES:
                trial.others.append((exchange, "It is too long to try here."))
                continue
            tried = replay(
                exchange, format_name=UNSAVED, definition=definition.text, snapshot=snapshot
            )
        except NotReplayable as error:
            trial.others.append((exchange, f"It cannot be replayed: {error}."))
            continue
        if reason := _reason_against(tried):
            trial.others.append((exchange, reason))
        else:
            trial.calls += 1
    return trial


def leaking_models(limit: int = 20) -> list[str]:
    """Models whose calls reached clients as text lately, by the upstream's name."""
    leaked = Exchange.objects.filter(leaked_format__in=LEAK_FORMATS).order_by("-id")
    return [*dict.fromkeys(leaked.values_list("upstream_model", flat=True)[:500])][:limit]


def _reason_against(tried: Replay) -> str:
    """The reason why the answer does not become calls; empty if it does."""
    if tried.error:
        return tried.error
    if not any(isinstance(load_event(event), ToolCallEnd) for event in tried.events):
        return "No call was read."
    if tried.result != Replay.Result.FIXED:
        return "Markup is still in the text."
    return ""
