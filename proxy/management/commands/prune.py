"""Deletes transcripts and exchanges that are older than the gateway's settings say."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from proxy.audit.retention import BATCH, PAUSE, PrunedElsewhere, prune, summary
from proxy.models import GatewaySettings


class Command(BaseCommand):
    help = "Delete old transcripts and exchanges, in batches. The gateway does so every day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--batch", type=int, default=BATCH, help="rows of one transaction")
        parser.add_argument(
            "--pause", type=float, default=PAUSE, help="seconds between two batches"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["batch"] <= 10_000 or options["pause"] < 0:
            raise CommandError("--batch must be from 1 to 10000, --pause at least 0")

        def pause() -> bool:
            time.sleep(options["pause"])
            return False

        try:
            deleted = prune(batch=options["batch"], pause=pause)
        except GatewaySettings.DoesNotExist as error:
            raise CommandError("there are no settings: start the gateway once") from error
        except PrunedElsewhere as error:
            raise CommandError("another process is deleting old rows at this moment") from error
        self.stdout.write(f"Deleted: {summary(deleted or {})}.")
