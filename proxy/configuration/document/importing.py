"""A document's way into the configuration: tried out, or for good.

Both are the same import; the trial is taken back. What is reported is the difference between the
documents before and after, so that it is what was really saved.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from proxy.configuration.document.apply import apply
from proxy.configuration.document.diff import Change, difference
from proxy.configuration.document.export import current, present_version
from proxy.configuration.document.parse import read
from proxy.configuration.preview import Effect, effects, known_models, tentatively
from proxy.configuration.snapshot import NotBootstrapped, Snapshot, load
from proxy.models import ConfigurationVersion


class Moved(Exception):
    """The configuration is not the one that the import was decided on."""


@dataclass(frozen=True, slots=True)
class Report:
    """What an import does, or did."""

    version: int
    """Of the configuration: before, if it was tried; after, if it was done."""
    changes: list[Change]
    effects: list[Effect]
    """Models that are routed or read differently."""
    remarks: list[str]
    """What an operator must still do, or should know."""


def rehearse(text: str, *, now: datetime) -> Report:
    """What an import would do; raises Refused."""
    with tentatively():
        ConfigurationVersion.lock()
        version = present_version()
        report = take(text, now=now, reason="")
    return Report(version, report.changes, report.effects, report.remarks)


@transaction.atomic
def take(text: str, *, now: datetime, reason: str, version: int | None = None) -> Report:
    """Import a document, all of it or nothing; raises Refused.

    With the number of a version it raises Moved if the configuration has another.
    """
    draft = read(text)
    ConfigurationVersion.lock()
    if version is not None and version != present_version():
        raise Moved
    before, old, names = current(), *_snapshot(now)
    remarks = apply(draft, reason=reason, now=now)
    changes = difference(before, current())
    found: list[Effect] = []
    if changes:
        new, more = _snapshot(now)
        found = effects(old, new, [*names, *more]) if old and new else []
    return Report(present_version(), changes, found, remarks)


def _snapshot(now: datetime) -> tuple[Snapshot | None, list[str]]:
    """The configuration as processes load it, and the models worth asking about."""
    try:
        return load(), known_models(now)
    except NotBootstrapped:
        return None, []
