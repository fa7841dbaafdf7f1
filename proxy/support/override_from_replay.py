"""Makes a format override from a replay that fixed an exchange."""

from fnmatch import fnmatchcase

from proxy.models import FormatOverride, Replay


def would_fix(replay: Replay) -> bool:
    """Return whether an override to the replay's format would have fixed the exchange."""
    return replay.result == Replay.Result.FIXED and replay.format != replay.exchange.format


def override_for(replay: Replay) -> FormatOverride:
    """The override that gives the exchange's model the format of the replay; not saved.

    Its priority puts it before every other override that matches the model.
    """
    exchange = replay.exchange
    model = exchange.upstream_model or exchange.model
    pattern = "".join(f"[{char}]" if char in "*?[" else char for char in model)
    row = FormatOverride.objects.filter(pattern__iexact=pattern).first()
    row = row or FormatOverride(pattern=pattern)
    row.format, row.active = replay.format, True
    row.note = f"A replay of {exchange.request_id} as {replay.format} fixed it."
    others = FormatOverride.objects.filter(active=True).exclude(pk=row.pk)
    for other in others:  # in order of precedence
        if fnmatchcase(model.lower(), other.pattern.lower()):
            row.priority = min(row.priority, other.priority - 1)
            break
    return row
