"""The database of the version before: copies its rows to another database, and compares them.

`tests/fixtures/database/version_before.sql` is a dump of an SQLite database that the version before
made, with a row in every table of the gateway. These functions run in a process of their own, whose
default database is the one under test.

After a release, replace the dump by one of that release (`sqlite3 athena.sqlite3 .dump`), with a
row in every table, and update LAST_MIGRATION.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.core.management.color import no_style
from django.db import connection, connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models import DateTimeField, Model

DUMP = Path(__file__).parent.parent / "fixtures" / "database" / "version_before.sql"
LAST_MIGRATION = "0014_indexes_of_exchanges"


def load_dump(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(DUMP.read_text())


def copy_rows() -> None:
    """Insert the rows of the dump into the default database, which has the same migrations."""
    with _dump() as models, transaction.atomic():
        with connection.cursor() as cursor:
            # Migrations have already made some rows, such as the roles.
            for model in reversed(models):
                cursor.execute(f'DELETE FROM "{model._meta.db_table}"')  # noqa: S608
        with connection.constraint_checks_disabled():
            for model in models:
                for field in model._meta.concrete_fields:
                    if isinstance(field, DateTimeField):
                        field.auto_now = field.auto_now_add = False  # keep the times of the dump
                model._default_manager.using("default").bulk_create(_rows(model, "dump"))
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), models):
                cursor.execute(statement)


def print_differences() -> None:
    """Print each row of the dump that the migrated default database lacks or has changed."""
    with _dump() as models:
        for old_model in models:
            rows = _rows(old_model, "dump")
            if not rows:
                print(f"{old_model._meta.label}: the dump has no row")
            try:
                model = apps.get_model(old_model._meta.label)
            except LookupError:
                print(f"{old_model._meta.label}: the table is gone")
                continue
            for row in rows:
                _print_difference(row, model._base_manager.filter(pk=row.pk).first())


def _print_difference(old: Model, new: Model | None) -> None:
    name = f"{old._meta.label} {old.pk}"
    if new is None:
        print(f"{name}: the row is gone")
        return
    fields = {field.attname for field in new._meta.concrete_fields}
    for field in old._meta.concrete_fields:
        if field.attname not in fields:
            print(f"{name}: the column {field.attname} is gone")
        elif _plain(old, field.attname) != _plain(new, field.attname):
            print(f"{name}: {field.attname} has changed")


def _plain(row: Model, name: str) -> Any:
    value = getattr(row, name)
    return bytes(value) if isinstance(value, memoryview) else value


def _rows(model: type[Model], alias: str) -> list[Model]:
    return list(model._default_manager.using(alias).order_by("pk"))


@contextmanager
def _dump() -> Iterator[list[type[Model]]]:
    """Open the dump as the database `dump`; gives its tables as the version before knew them."""
    state = MigrationLoader(None).project_state(("proxy", LAST_MIGRATION)).apps
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dump.sqlite3"
        load_dump(path)
        connections.databases["dump"] = {
            **connections.databases["default"],
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(path),
            "OPTIONS": {},
        }
        user = state.get_model(User._meta.label)
        yield [user, *state.get_app_config("proxy").get_models()]
        connections["dump"].close()
