"""Deletes what is stored of one request, of a key or of a person's keys, before its time.

Exchanges go with their transcripts and replays; sums of traffic, which have no content, stay. What
was erased is a line of the log: how much, and by which question, never what it was.
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
    help = "Delete the exchanges of one request, one key or one person."

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--request", help="the id of a request")
        which.add_argument("--key", help="the number of a key, as `key list` shows it")
        which.add_argument("--owner", help="the name of the person whose keys they were made with")
        parser.add_argument(
            "--content", action="store_true", help="only what was said; the exchanges stay"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        rows = Exchange.objects.all()
        if options["request"]:
            rows = rows.filter(request_id=options["request"])
        elif options["key"]:
            if not ClientKey.objects.filter(pk=_number(options["key"])).exists():
                raise CommandError(f"there is no key {visible(options['key'])}")
            rows = rows.filter(key_id=_number(options["key"]))
        else:
            rows = rows.filter(key__owner__username=options["owner"])
        if options["content"]:
            rows = rows.filter(transcript__isnull=False)
        count = 0
        while ids := list(rows.values_list("pk", flat=True)[:BATCH]):
            found = Exchange.objects.filter(pk__in=ids)
            if options["content"]:
                for row in found.select_related("transcript"):
                    row.replays.all().delete()
                    row.transcript.delete()
            else:
                found.delete()
            count += len(ids)
        while Standing.delete_unused(Standing.unused(), BATCH):
            pass
        question = next(name for name in ("request", "key", "owner") if options[name])
        logger.info("erased", extra={"by": question, "exchanges": count})
        what = "the content of " if options["content"] else ""
        self.stdout.write(f"Erased: {what}{count} exchange{'' if count == 1 else 's'}.")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
