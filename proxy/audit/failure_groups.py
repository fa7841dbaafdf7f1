"""Groups failures of one kind: the same format, error, phase and model family."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F

from proxy.models import FailureGroup, FailureHour, GroupState

_FAMILY = re.compile(r"(?:[^/]*/)?[A-Za-z]+")


def failure_fingerprint(row: Mapping[str, Any]) -> str:
    """The kind of a failure. `row`: the columns of an exchange."""
    family = model_family(row["upstream_model"] or row["model"])
    return f"{row['format']}|{row['error_code']}|{row['error_phase']}|{family}"


def leak_fingerprint(row: Mapping[str, Any]) -> str | None:
    """The kind of a markup leak, or None. Leaks are not failures, and have no groups."""
    leaked = row["leaked_format"]
    return f"leaked|{leaked}|{model_family(row['upstream_model'])}" if leaked else None


def model_family(model: str) -> str:
    """A model's name without its version: `moonshotai/kimi` for `moonshotai/kimi-k2.5`."""
    match = _FAMILY.match(model)
    return (match[0] if match else model)[:120]


def count_failures(failures: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, FailureGroup]:
    """Add failures to their groups; returns the groups by fingerprint.

    `failures`: pairs of fingerprint and row. Groups are updated in sorted order, so that processes
    that write at the same time do not deadlock.
    """
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for fingerprint, row in failures:
        rows.setdefault(fingerprint, []).append(row)
    return {fingerprint: _count(fingerprint, rows[fingerprint]) for fingerprint in sorted(rows)}


def _count(fingerprint: str, rows: Sequence[Mapping[str, Any]]) -> FailureGroup:
    times = [row["created_at"] for row in rows]
    group, _ = FailureGroup.objects.get_or_create(
        fingerprint=fingerprint,
        defaults={
            "format": rows[0]["format"],
            "error_code": rows[0]["error_code"],
            "phase": rows[0]["error_phase"],
            "family": model_family(rows[0]["upstream_model"] or rows[0]["model"]),
            "first_seen": min(times),
            "last_seen": max(times),
        },
    )
    stored = FailureGroup.objects.filter(pk=group.pk)
    stored.update(count=F("count") + len(rows))
    stored.filter(last_seen__lt=max(times)).update(last_seen=max(times))
    # A separate update: it must not overwrite a state that a person sets at the same time.
    stored.filter(state=GroupState.RESOLVED).update(state=GroupState.REGRESSED)
    for hour, count in Counter(map(_hour, times)).items():
        bucket, _ = FailureHour.objects.get_or_create(group=group, hour=hour)
        FailureHour.objects.filter(pk=bucket.pk).update(count=F("count") + count)
    return group


def _hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)
