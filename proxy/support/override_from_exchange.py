"""Makes a format override from an exchange: from a replay that fixed it, or from a reading of
`auto`.
"""

from fnmatch import fnmatchcase

from proxy.models import Exchange, FormatOverride, Replay


def would_fix(replay: Replay) -> bool:
    """Return whether an override to the replay's format would have fixed the exchange."""
    return replay.result == Replay.Result.FIXED and replay.format != replay.exchange.format


def override_from_replay(replay: Replay) -> FormatOverride:
    """The override that gives the exchange's model the format of the replay; not saved."""
    exchange = replay.exchange
    note = f"A replay of {exchange.request_id} as {replay.format} fixed it."
    return _override_of_model(exchange, replay.format, note)


def override_from_reading(exchange: Exchange) -> FormatOverride:
    """The override that gives the exchange's model the family that `auto` read; not saved."""
    family = exchange.family_read or ""
    return _override_of_model(exchange, family, f"auto read {exchange.request_id} as {family}.")


def _override_of_model(exchange: Exchange, format_name: str, note: str) -> FormatOverride:
    """The override of the exchange's model. Its priority puts it before all others that match."""
    model = exchange.upstream_model or exchange.model
    pattern = "".join(f"[{char}]" if char in "*?[" else char for char in model)
    row = FormatOverride.objects.filter(pattern__iexact=pattern).first()
    row = row or FormatOverride(pattern=pattern)
    row.format, row.active, row.note = format_name, True, note
    others = FormatOverride.objects.filter(active=True).exclude(pk=row.pk)
    for other in others:  # in order of precedence
        if fnmatchcase(model.lower(), other.pattern.lower()):
            row.priority = min(row.priority, other.priority - 1)
            break
    return row
