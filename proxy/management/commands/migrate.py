"""`manage.py migrate`: Django's command, on one node at a time and without blocking traffic."""

from typing import Any

import psycopg.errors
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError

from proxy.database.schema import LOCK_TIMEOUT, migration_lock


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with migration_lock():
                super().handle(*args, **options)
        except OperationalError as error:
            if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise
            raise CommandError(
                f"a migration could not lock its tables within {LOCK_TIMEOUT} s and was cancelled,"
                " so that traffic is not blocked. It changed nothing. Try again."
            ) from error
