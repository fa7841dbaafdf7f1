"""`manage.py config`: exports, imports and checks the configuration as a YAML document."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from proxy.configuration.diagnostics import diagnose
from proxy.configuration.document.diff import ADDED, REMOVED, RowChange
from proxy.configuration.document.export import export
from proxy.configuration.document.import_document import Report, preview_import, run_import
from proxy.configuration.document.problems import InvalidDocument
from proxy.configuration.document.yaml_nodes import MAX_BYTES
from proxy.database.outage import message_without_password
from proxy.security.visible_text import visible

_SIGNS = {ADDED: "+", REMOVED: "-"}
_MAX_EFFECTS = 50


class Command(BaseCommand):
    help = (
        "Export the configuration as a YAML document without secrets, import a document, or check "
        "the current configuration or a document. Exits with status 1 if a check fails."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        export_verb = verbs.add_parser("export", help="write the configuration as a document")
        export_verb.add_argument(
            "--output", type=Path, metavar="FILE", help="write to this file, not to the terminal"
        )
        import_verb = verbs.add_parser(
            "import", help="change the configuration to match a document"
        )
        import_verb.add_argument("file", help="the document, or - for standard input")
        import_verb.add_argument(
            "--dry-run", action="store_true", help="show what would change, and change nothing"
        )
        check = verbs.add_parser("check", help="report problems")
        check.add_argument("file", nargs="?", help="a document; default: the current configuration")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._run(options)
        except DatabaseError as error:
            raise CommandError(
                f"the database cannot be used: {message_without_password(error)}"
            ) from error

    def _run(self, options: dict[str, Any]) -> None:
        match options["verb"]:
            case "export":
                self._export(options["output"])
            case "import":
                self._import(options["file"], is_dry_run=options["dry_run"])
            case _ if options["file"]:
                self._import(options["file"], is_dry_run=True)
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

    def _import(self, name: str, *, is_dry_run: bool) -> None:
        text, now = _read(name), timezone.now()
        try:
            if is_dry_run:
                report = preview_import(text, now=now)
            else:
                report = run_import(text, now=now, reason="config import")
        except InvalidDocument as refused:
            for problem in refused.problems:
                self.stderr.write(visible(str(problem)))
            more = f" {refused.left_out} more problems are not shown." if refused.left_out else ""
            raise CommandError(f"Import rejected. Nothing was changed.{more}") from refused
        for line in _report_lines(report, is_dry_run=is_dry_run):
            self.stdout.write(visible(line))

    def _check(self) -> None:
        results = diagnose(timezone.now())
        for finding in results:
            kind = self.style.ERROR("ERROR") if finding.is_error else "hint "
            self.stdout.write(f"{kind}  {visible(finding.message)}")
        if any(finding.is_error for finding in results):
            raise CommandError("The configuration has errors; they are listed above.")
        self.stdout.write("No errors found.")


def _read(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        return data.decode()
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{name} is not UTF-8") from error


def _report_lines(report: Report, *, is_dry_run: bool) -> Iterator[str]:
    for change in report.changes:
        yield from _change_lines(change)
    if report.effects:
        yield f"Models whose route or format {'would change' if is_dry_run else 'changed'}:"
        for effect in report.effects[:_MAX_EFFECTS]:
            yield f"    {effect.model}: {effect.before} → {effect.after}"
        if len(report.effects) > _MAX_EFFECTS:
            yield f"    and {len(report.effects) - _MAX_EFFECTS} more"
    yield from (f"Note: {remark}" for remark in report.remarks)
    count = len(report.changes)
    rows = f"{count} row{'' if count == 1 else 's'}"
    if not count:
        yield f"Nothing {'would change' if is_dry_run else 'was changed'}."
    elif is_dry_run:
        yield f"{rows} would change. Nothing was changed."
    else:
        yield f"{rows} changed. The configuration is now version {report.version}."


def _change_lines(change: RowChange) -> Iterator[str]:
    yield f"{_SIGNS.get(change.kind, '~')} {change.section} {change.name}".rstrip()
    for field in change.fields:
        arrow = " → " if field.before and field.after else ""
        yield f"    {field.name}: {field.before}{arrow}{field.after}"
