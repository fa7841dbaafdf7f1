"""From a replay that helped to the configuration that makes it so."""

from fnmatch import fnmatchcase

from proxy.models import FormatOverride, Replay


def helps(replay: Replay) -> bool:
    """Whether an override to the replay's format would mend the exchange."""
    return replay.result == Replay.Result.FIXED and replay.format != replay.exchange.format


def override_for(replay: Replay) -> FormatOverride:
    """The override that reads the exchange's model as the replay did; not saved, not validated.

    It takes precedence over every other that matches the model now.
    """
    exchange = replay.exchange
    model = exchange.upstream_model or exchange.model
    pattern = "".join(f"[{char}]" if char in "*?[" else char for char in model)
    row = FormatOverride.objects.filter(pattern__iexact=pattern).first()
    row = row or FormatOverride(pattern=pattern)
    row.format, row.active = replay.format, True
    row.note = f"A replay of {exchange.request_id} as {replay.format} was right."
    others = FormatOverride.objects.filter(active=True).exclude(pk=row.pk)
    for other in others:  # in order of precedence
        if fnmatchcase(model.lower(), other.pattern.lower()):
            row.priority = min(row.priority, other.priority - 1)
            break
    return row
