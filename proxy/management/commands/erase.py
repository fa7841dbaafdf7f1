"""`manage.py erase`: deletes stored exchanges of one request, one client key or one key owner.

Transcripts and replays are deleted with their exchanges; traffic sums, which have no content, stay.
Each run writes one log line with the number of exchanges and the kind of selection, no content.
"""

import logging
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from proxy.audit.retention import BATCH
from proxy.models import ClientKey, Exchange, Standing
from proxy.security.visible_text import visible

logger = logging.getLogger("athena.erasure")


class Command(BaseCommand):
    help = "Delete the exchanges of one request, one client key or one key owner."

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--request", help="a request id")
        which.add_argument("--key", help="the id of a client key, from `key list`")
        which.add_argument("--owner", help="the username of the owner of the keys")
        parser.add_argument(
            "--content",
            action="store_true",
            help="delete only transcripts and replays; keep the exchanges",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        rows = Exchange.objects.all()
        if options["request"]:
            rows = rows.filter(request_id=options["request"])
        elif options["key"]:
            if not ClientKey.objects.filter(pk=_key_id(options["key"])).exists():
                raise CommandError(f"no client key has the id {visible(options['key'])}")
            rows = rows.filter(key_id=_key_id(options["key"]))
        else:
            rows = rows.filter(key__owner__username=options["owner"])
        if options["content"]:
            rows = rows.filter(transcript__isnull=False)
        count = 0
        while ids := list(rows.values_list("pk", flat=True)[:BATCH]):
            batch = Exchange.objects.filter(pk__in=ids)
            if options["content"]:
                for row in batch.select_related("transcript"):
                    row.replays.all().delete()
                    row.transcript.delete()
            else:
                batch.delete()
            count += len(ids)
        while Standing.delete_unused(Standing.unused(), BATCH):
            pass
        selection = next(name for name in ("request", "key", "owner") if options[name])
        logger.info("erased", extra={"by": selection, "exchanges": count})
        what = "the content of " if options["content"] else ""
        self.stdout.write(f"Erased {what}{count} exchange{'' if count == 1 else 's'}.")


def _key_id(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
