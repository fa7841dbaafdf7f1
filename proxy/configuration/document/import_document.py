"""Imports a document, for good or as a dry run.

Both run the same code; the dry run is rolled back. The report compares the documents before and
after, so that it lists what was really saved.
"""

from dataclasses import dataclass
from datetime import datetime

from proxy.configuration.document.apply_draft import apply_draft
from proxy.configuration.document.diff import RowChange, diff
from proxy.configuration.document.export import current_document, current_version
from proxy.configuration.document.parse import parse
from proxy.configuration.editing import editing
from proxy.configuration.preview import Effect, effects, known_models
from proxy.configuration.snapshot import NotBootstrapped, Snapshot, load


class VersionChanged(Exception):
    """The configuration has changed since the import was previewed."""


@dataclass(frozen=True, slots=True)
class Report:
    """The changes that an import makes, or made."""

    version: int
    """The configuration version: before a dry run, after an import."""
    changes: list[RowChange]
    effects: list[Effect]
    """Models that are routed or decoded differently."""
    remarks: list[str]
    """Notes for the operator, such as secrets that must still be entered."""


def preview_import(text: str, *, now: datetime) -> Report:
    """Report what an import would change; raises InvalidDocument."""
    with editing(dry_run=True):
        version = current_version()
        report = run_import(text, now=now, reason="")
    return Report(version, report.changes, report.effects, report.remarks)


def run_import(text: str, *, now: datetime, reason: str, version: int | None = None) -> Report:
    """Import a document, all of it or nothing; raises InvalidDocument.

    If a version is given, raises VersionChanged when the configuration has another.
    """
    draft = parse(text)
    with editing():
        if version is not None and version != current_version():
            raise VersionChanged
        before, old, names = current_document(), *_snapshot(now)
        remarks = apply_draft(draft, reason=reason, now=now)
        changes = diff(before, current_document())
        affected: list[Effect] = []
        if changes:
            new, more_names = _snapshot(now)
            affected = effects(old, new, [*names, *more_names]) if old and new else []
        return Report(current_version(), changes, affected, remarks)


def _snapshot(now: datetime) -> tuple[Snapshot | None, list[str]]:
    """The configuration as processes load it, and the model names to compare."""
    try:
        return load(), known_models(now)
    except NotBootstrapped:
        return None, []
