"""Reads stored answers again, with today's code and configuration; no network, nothing is saved."""

import json
import re
from argparse import ArgumentParser
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime

from formats import FORMATS
from proxy.audit.transcripts.codec import Said, repack
from proxy.configuration.snapshot import NotBootstrapped, load
from proxy.models import Exchange, FailureGroup, Replay, Transcript
from proxy.support.replay import NotReplayable, replay
from proxy.support.test_vector import fixture_of, is_vector, wire_of

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FAILING = (Replay.Result.STILL_FAILING, Replay.Result.NEWLY_BROKEN)
_TOLD = (Replay.Result.FIXED, *_FAILING)


class Command(BaseCommand):
    help = (
        "Read stored answers again and say what became of them: fixed, still failing, newly "
        "broken. The exit status is 1 if any fails."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--group", type=int, metavar="ID", help="every exchange of a group")
        which.add_argument("--request-id", metavar="ID", help="one exchange")
        which.add_argument("--file", type=Path, help="a transcript as the API gives it")
        parser.add_argument("--format", choices=sorted(FORMATS), help="instead of today's")
        parser.add_argument("--strict", action="store_true", default=None)
        parser.add_argument("--save-fixture", metavar="NAME", help="write it into tests/fixtures")
        parser.add_argument(
            "--into", type=Path, default=settings.BASE_DIR / "tests" / "fixtures", metavar="DIR"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            snapshot = load()
        except NotBootstrapped as error:
            raise CommandError("there is no configuration: start the gateway once") from error
        counts: Counter[str] = Counter()
        last: tuple[Exchange, Said, Replay] | None = None
        for exchange, transcript in _stored(options):
            try:
                tried = replay(
                    exchange,
                    format_name=options["format"],
                    strict=options["strict"],
                    snapshot=snapshot,
                    transcript=transcript,
                )
            except NotReplayable as error:
                self.stdout.write(f"{exchange.request_id}  not replayable: {error}")
                counts["not replayable"] += 1
                continue
            counts[Replay.Result(tried.result).label] += 1
            last = exchange, transcript.said, tried
            error_shown = f": {_printable(tried.error)}" if tried.error else ""
            label = Replay.Result(tried.result).label
            self.stdout.write(f"{exchange.request_id}  {label}, as {tried.format}{error_shown}")
        self.stdout.write(_totals(counts))
        if options["save_fixture"]:
            if last is None or counts.total() != 1:
                raise CommandError("a fixture is made of one exchange that can be replayed")
            path = save_fixture(options["into"], options["save_fixture"], *last)
            self.stdout.write(f"Written: {path}. Check what it expects before you trust it.")
        if any(counts[result.label] for result in _FAILING):
            raise CommandError("some fail")


def save_fixture(folder: Path, name: str, exchange: Exchange, said: Said, tried: Replay) -> Path:
    """Write what a replay made of an exchange: a line of vectors, or a file of its own."""
    if not _NAME.fullmatch(name):
        raise CommandError("a fixture's name has small letters, digits and single dashes")
    vector = fixture_of(exchange, said, format_name=tried.format, events=tried.events)
    if is_vector(vector):
        path = folder / "native" / f"{tried.format}.jsonl"
        lines = path.read_text() if path.exists() else ""
        if any(json.loads(line)["id"] == name for line in lines.splitlines()):
            raise CommandError(f"{path} has a vector {name} already")
        lines += json.dumps(vector | {"id": name}, ensure_ascii=False) + "\n"
    else:
        path = folder / "wire" / f"{name}.json"
        if path.exists():
            raise CommandError(f"{path} is there already")
        wire = wire_of(name, exchange, said, tried)
        lines = json.dumps(wire, ensure_ascii=False, indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines)
    return path


def _stored(options: dict[str, Any]) -> Iterator[tuple[Exchange, Transcript]]:
    if options["file"] is not None:
        yield _from_file(options["file"])
        return
    kept = Transcript.objects.select_related("exchange", "standing")
    if options["request_id"] is not None:
        found = kept.filter(exchange__request_id=options["request_id"])
        if not found:
            raise CommandError(f"no transcript of {options['request_id']!r} is kept")
    elif not FailureGroup.objects.filter(pk=options["group"]).exists():
        raise CommandError(f"there is no group {options['group']}")
    else:
        found = kept.filter(exchange__group=options["group"])
    for transcript in found.order_by("exchange_id").iterator(chunk_size=20):
        yield transcript.exchange, transcript


def _from_file(path: Path) -> tuple[Exchange, Transcript]:
    """What `GET /api/transcripts/…` answered."""
    try:
        fields = json.loads(path.read_text())
        row = fields.pop("exchange")
        columns = {field.name for field in Exchange._meta.concrete_fields} - {"key", "group"}
        known = {name: value for name, value in row.items() if name in columns}
        known["created_at"] = parse_datetime(known["created_at"])
        exchange = Exchange(**known)
        said = Said(
            **{name: fields[name] for name in ("reading", "tools", "events", "left_out")},
            raw=b64decode(fields["raw"], validate=True),
            sent=b64decode(fields["sent"], validate=True),
        )
        transcript = Transcript(exchange=exchange, packed=repack(said))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandError(f"{path} is no transcript of the API's: {error!r}") from error
    return exchange, transcript


def _totals(counts: "Counter[str]") -> str:
    labels = [result.label for result in _TOLD]
    others = [label for label in counts if label not in labels]
    return "Total: " + ", ".join(f"{counts[label]} {label}" for label in [*labels, *others])


def _printable(text: str) -> str:
    """A model's words must not steer the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
