"""Failures of one kind make a group: the same format, error, phase and family of models."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F

from proxy.models import FailureGroup, FailureHour, GroupState

_FAMILY = re.compile(r"(?:[^/]*/)?[A-Za-z]+")


def fingerprint(row: Mapping[str, Any]) -> str:
    """What makes two failures one kind; of the fields of an exchange's row."""
    model = family(row["upstream_model"] or row["model"])
    return f"{row['format']}|{row['error_code']}|{row['error_phase']}|{model}"


def leak_mark(row: Mapping[str, Any]) -> str | None:
    """What makes two leaks of markup one kind, if there was one. They are no failures, no group."""
    leaked = row["leaked_format"]
    return f"leaked|{leaked}|{family(row['upstream_model'])}" if leaked else None


def family(model: str) -> str:
    """A model's name without its version: `moonshotai/kimi` of `moonshotai/kimi-k2.5`."""
    found = _FAMILY.match(model)
    return (found[0] if found else model)[:120]


def count_failures(failures: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, FailureGroup]:
    """Add failures, each a fingerprint and a row, to their groups; the groups by fingerprint.

    Groups are taken in one order, so that processes which write at once wait and do not deadlock.
    """
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for mark, row in failures:
        rows.setdefault(mark, []).append(row)
    return {mark: _count(mark, rows[mark]) for mark in sorted(rows)}


def _count(mark: str, rows: Sequence[Mapping[str, Any]]) -> FailureGroup:
    moments = [row["created_at"] for row in rows]
    group, _ = FailureGroup.objects.get_or_create(
        fingerprint=mark,
        defaults={
            "format": rows[0]["format"],
            "error_code": rows[0]["error_code"],
            "phase": rows[0]["error_phase"],
            "family": family(rows[0]["upstream_model"] or rows[0]["model"]),
            "first_seen": min(moments),
            "last_seen": max(moments),
        },
    )
    found = FailureGroup.objects.filter(pk=group.pk)
    found.update(count=F("count") + len(rows))
    found.filter(last_seen__lt=max(moments)).update(last_seen=max(moments))
    # Apart from the rest: what somebody decides at this moment is not overwritten.
    found.filter(state=GroupState.RESOLVED).update(state=GroupState.REGRESSED)
    for hour, number in Counter(map(_hour, moments)).items():
        bucket, _ = FailureHour.objects.get_or_create(group=group, hour=hour)
        FailureHour.objects.filter(pk=bucket.pk).update(count=F("count") + number)
    return group


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
