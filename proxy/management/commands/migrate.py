"""Django's `migrate`, one node at a time and never in the way of the traffic."""

from typing import Any

import psycopg.errors
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError

from proxy.database.schema import LOCK_TIMEOUT, alone


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with alone():
                super().handle(*args, **options)
        except OperationalError as error:
            if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise
            raise CommandError(
                f"a migration could not have its tables for itself within {LOCK_TIMEOUT} s, and was"
                " given up so that the traffic goes on. Nothing of it was done: try again."
            ) from error
