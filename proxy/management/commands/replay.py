"""`manage.py replay`: decodes stored answers again with the current code and configuration.

It sends nothing over the network and saves no replay.
"""

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

from formats import FORMATS, SplitThinking
from proxy.audit.transcripts.codec import TranscriptContent, pack
from proxy.configuration.snapshot import NotBootstrapped, load
from proxy.models import Exchange, FailureGroup, Replay, Transcript
from proxy.support.replay import NotReplayable, replay
from proxy.support.test_vector import fits_vector, make_vector, make_wire_fixture

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FAILING = (Replay.Result.STILL_FAILING, Replay.Result.NEWLY_BROKEN)
_ALWAYS_REPORTED = (Replay.Result.FIXED, *_FAILING)


class Command(BaseCommand):
    help = (
        "Decode stored answers again and report each as fixed, still failing or newly broken. "
        "Exits with status 1 if any fails."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--group", type=int, metavar="ID", help="all exchanges of a failure group"
        )
        which.add_argument("--request-id", metavar="ID", help="one exchange")
        which.add_argument("--file", type=Path, help="a transcript downloaded from the API")
        parser.add_argument("--format", metavar="NAME", help="default: as configured")
        parser.add_argument(
            "--strict",
            action="store_true",
            default=None,
            help="an unclosed section fails; default: as configured",
        )
        parser.add_argument(
            "--split-thinking",
            choices=[value.value for value in SplitThinking],
            help="split thinking off the text; default: as configured",
        )
        parser.add_argument(
            "--save-fixture", metavar="NAME", help="save the exchange as a test fixture"
        )
        parser.add_argument(
            "--into",
            type=Path,
            default=settings.BASE_DIR / "tests" / "fixtures",
            metavar="DIR",
            help="directory of the fixture; default: tests/fixtures",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            snapshot = load()
        except NotBootstrapped as error:
            raise CommandError(
                "the database has no configuration yet. Start the gateway once."
            ) from error
        name = options["format"]
        if name is not None and not snapshot.has_format(name):
            known = ", ".join(sorted({*FORMATS, *snapshot.definitions}))
            raise CommandError(f"there is no active format {_printable(name)!r}. Known: {known}")
        counts: Counter[str] = Counter()
        last: tuple[Exchange, TranscriptContent, Replay] | None = None
        for exchange, transcript in _stored(options):
            try:
                tried = replay(
                    exchange,
                    format_name=options["format"],
                    strict=options["strict"],
                    split_thinking=options["split_thinking"],
                    snapshot=snapshot,
                    transcript=transcript,
                )
            except NotReplayable as error:
                self.stdout.write(f"{exchange.request_id}  not replayable: {error}")
                counts["not replayable"] += 1
                continue
            counts[Replay.Result(tried.result).label] += 1
            last = exchange, transcript.content, tried
            error_shown = f": {_printable(tried.error)}" if tried.error else ""
            label = Replay.Result(tried.result).label
            self.stdout.write(f"{exchange.request_id}  {label}, as {tried.format}{error_shown}")
        self.stdout.write(_totals(counts))
        if options["save_fixture"]:
            if last is None or counts.total() != 1:
                raise CommandError("--save-fixture needs exactly one replayable exchange")
            path = save_fixture(options["into"], options["save_fixture"], *last)
            self.stdout.write(f"Saved {path}. Check the expected events before committing it.")
        if any(counts[result.label] for result in _FAILING):
            raise CommandError("some exchanges fail")


def save_fixture(
    folder: Path, name: str, exchange: Exchange, content: TranscriptContent, tried: Replay
) -> Path:
    """Save a replay as a test fixture: a line in a vector file, or a wire fixture of its own."""
    if not _NAME.fullmatch(name):
        raise CommandError("a fixture name consists of lowercase letters, digits and single dashes")
    vector = make_vector(exchange, content, format_name=tried.format, events=tried.events)
    if fits_vector(vector):
        path = folder / "native" / f"{tried.format}.jsonl"
        lines = path.read_text() if path.exists() else ""
        if any(json.loads(line)["id"] == name for line in lines.splitlines()):
            raise CommandError(f"{path} already has a vector named {name}")
        lines += json.dumps(vector | {"id": name}, ensure_ascii=False) + "\n"
    else:
        path = folder / "wire" / f"{name}.json"
        if path.exists():
            raise CommandError(f"{path} already exists")
        wire = make_wire_fixture(name, exchange, content, tried)
        lines = json.dumps(wire, ensure_ascii=False, indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines)
    return path


def _stored(options: dict[str, Any]) -> Iterator[tuple[Exchange, Transcript]]:
    if options["file"] is not None:
        yield _from_file(options["file"])
        return
    stored = Transcript.objects.select_related("exchange", "standing")
    if options["request_id"] is not None:
        matching = stored.filter(exchange__request_id=options["request_id"])
        if not matching:
            raise CommandError(f"no transcript is stored for {options['request_id']!r}")
    elif not FailureGroup.objects.filter(pk=options["group"]).exists():
        raise CommandError(f"no failure group has the id {options['group']}")
    else:
        matching = stored.filter(exchange__group=options["group"])
    for transcript in matching.order_by("exchange_id").iterator(chunk_size=20):
        yield transcript.exchange, transcript


def _from_file(path: Path) -> tuple[Exchange, Transcript]:
    """Load a transcript saved from `GET /api/transcripts/ID/`."""
    try:
        fields = json.loads(path.read_text())
        row = fields.pop("exchange")
        columns = {field.name for field in Exchange._meta.concrete_fields} - {"key", "group"}
        known = {name: value for name, value in row.items() if name in columns}
        known["created_at"] = parse_datetime(known["created_at"])
        exchange = Exchange(**known)
        content = TranscriptContent(
            **{name: fields[name] for name in ("reading", "tools", "events", "left_out")},
            raw=b64decode(fields["raw"], validate=True),
            sent=b64decode(fields["sent"], validate=True),
        )
        transcript = Transcript(exchange=exchange, packed=pack(content))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandError(f"{path} is not a transcript from the API: {error!r}") from error
    return exchange, transcript


def _totals(counts: "Counter[str]") -> str:
    labels = [result.label for result in _ALWAYS_REPORTED]
    others = [label for label in counts if label not in labels]
    return "Total: " + ", ".join(f"{counts[label]} {label}" for label in [*labels, *others])


def _printable(text: str) -> str:
    """Replace control characters, so that model output cannot control the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
