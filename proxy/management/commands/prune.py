"""`manage.py prune`: deletes transcripts and exchanges older than the gateway settings allow."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from proxy.audit.retention import BATCH, PAUSE, AlreadyPruning, prune, summary
from proxy.models import GatewaySettings


class Command(BaseCommand):
    help = "Delete old transcripts and exchanges in batches. The gateway does this once a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--batch", type=int, default=BATCH, help="rows per transaction")
        parser.add_argument("--pause", type=float, default=PAUSE, help="seconds between batches")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["batch"] <= 10_000 or options["pause"] < 0:
            raise CommandError("--batch must be from 1 to 10000, --pause at least 0")

        def pause() -> bool:
            time.sleep(options["pause"])
            return False

        try:
            deleted = prune(batch=options["batch"], pause=pause)
        except GatewaySettings.DoesNotExist as error:
            raise CommandError(
                "the database has no settings yet. Start the gateway once."
            ) from error
        except AlreadyPruning as error:
            raise CommandError(
                "another process is deleting old rows right now. Try again later."
            ) from error
        self.stdout.write(f"Deleted {summary(deleted or {})}.")
