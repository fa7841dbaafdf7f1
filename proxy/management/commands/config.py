"""Writes the configuration as a document, imports one, or checks either."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from proxy.configuration.document.diff import ADDED, REMOVED, Change
from proxy.configuration.document.export import export
from proxy.configuration.document.importing import Report, rehearse, take
from proxy.configuration.document.problems import Refused
from proxy.configuration.document.yaml_nodes import MOST_BYTES
from proxy.configuration.findings import findings
from proxy.database.outage import told
from proxy.security.visible_text import visible

_SIGNS = {ADDED: "+", REMOVED: "-"}
_MOST_EFFECTS = 50


class Command(BaseCommand):
    help = (
        "Export the configuration as a YAML document without secrets, import one, or check the "
        "present configuration or a document. The exit status is 1 if something is wrong."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        out = verbs.add_parser("export", help="write the document")
        out.add_argument("--output", type=Path, metavar="FILE", help="instead of to the terminal")
        into = verbs.add_parser("import", help="make the configuration what a document says")
        into.add_argument("file", help="the document; - reads it from the standard input")
        into.add_argument("--dry-run", action="store_true", help="only say what would change")
        check = verbs.add_parser("check", help="say what is wrong")
        check.add_argument("file", nargs="?", help="a document; else the present configuration")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._do(options)
        except DatabaseError as error:
            raise CommandError(f"the database cannot be used: {told(error)}") from error

    def _do(self, options: dict[str, Any]) -> None:
        match options["verb"]:
            case "export":
                self._export(options["output"])
            case "import":
                self._import(options["file"], is_trial=options["dry_run"])
            case _ if options["file"]:
                self._import(options["file"], is_trial=True)
            case _:
                self._check()

    def _export(self, output: Path | None) -> None:
        text, _ = export()
        if output is None:
            self.stdout.write(text, ending="")
            return
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}") from error

    def _import(self, name: str, *, is_trial: bool) -> None:
        text, now = _read(name), timezone.now()
        try:
            if is_trial:
                report = rehearse(text, now=now)
            else:
                report = take(text, now=now, reason="config import")
        except Refused as refused:
            for problem in refused.problems:
                self.stderr.write(visible(str(problem)))
            more = f" {refused.left_out} more problems are not shown." if refused.left_out else ""
            raise CommandError(f"Refused; nothing was changed.{more}") from refused
        for line in _lines(report, is_trial=is_trial):
            self.stdout.write(visible(line))

    def _check(self) -> None:
        found = findings(timezone.now())
        for finding in found:
            kind = self.style.ERROR("WRONG") if finding.is_wrong else "hint "
            self.stdout.write(f"{kind}  {visible(finding.message)}")
        if any(finding.is_wrong for finding in found):
            raise CommandError("Something is wrong: see above.")
        self.stdout.write("All is well.")


def _read(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        return data.decode()
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{name} is not UTF-8") from error


def _lines(report: Report, *, is_trial: bool) -> Iterator[str]:
    for change in report.changes:
        yield from _change(change)
    if report.effects:
        yield f"Models that {'would be' if is_trial else 'are'} routed or read differently:"
        for effect in report.effects[:_MOST_EFFECTS]:
            yield f"    {effect.model}: {effect.before} → {effect.after}"
        if len(report.effects) > _MOST_EFFECTS:
            yield f"    and {len(report.effects) - _MOST_EFFECTS} more"
    yield from (f"Note: {remark}" for remark in report.remarks)
    count = len(report.changes)
    rows = f"{count} row{'' if count == 1 else 's'}"
    if not count:
        yield f"Nothing {'would change' if is_trial else 'was changed'}."
    elif is_trial:
        yield f"{rows} would change; nothing was changed."
    else:
        yield f"{rows} changed. The configuration is version {report.version}."


def _change(change: Change) -> Iterator[str]:
    yield f"{_SIGNS.get(change.kind, '~')} {change.section} {change.name}".rstrip()
    for field in change.fields:
        arrow = " → " if field.before and field.after else ""
        yield f"    {field.name}: {field.before}{arrow}{field.after}"
