"""Whether the database's tables are those that this version of the code knows.

Only `serve` and `migrate` change them, before any worker runs; a worker never does. A version adds
to the tables and takes nothing away that the version before it uses, so that the two can run side
by side: `tests/proxy/database/test_schema.py` keeps migrations to that.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from proxy.database.outage import patience

LOCK_TIMEOUT = 3
"""Seconds that a migration waits for a table: all who come after it wait behind it."""
_OTHERS = 60
"""Seconds that a start waits for another node's migrations."""
_LOCK = 0x617468656E61  # of all who migrate a database of Athena's: "athena"


def missing_migrations() -> list[str]:
    """Those that the code has and the database has not."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def unknown_migrations() -> list[str]:
    """Those that the database has and the code has not: a newer version's."""
    loader = MigrationExecutor(connection).loader
    known, apps = set(loader.graph.nodes), loader.migrated_apps
    replaced = {
        name for migration in loader.disk_migrations.values() for name in migration.replaces
    }
    unknown = set(loader.applied_migrations) - known - replaced
    return sorted(f"{app}.{name}" for app, name in unknown if app in apps)


@contextmanager
def alone() -> Iterator[None]:
    """On PostgreSQL: migrate when no other node does, and give up rather than stop the traffic."""
    if connection.vendor != "postgresql":
        yield
        return
    with patience(None):  # to fill a column may take its time
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{_OTHERS}s'")
            cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
            cursor.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}s'")
        try:
            yield
        finally:
            connection.close()  # gives back the lock and the settings, whatever happened
