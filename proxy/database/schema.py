"""Schema version: compares the migrations of the code with those of the database.

Only `serve` and `migrate` change the schema, before any worker runs. A new version only adds to the
schema, and removes nothing that the previous version uses, so that both can run side by side:
`tests/proxy/database/test_schema.py` checks every migration for that.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from proxy.database.outage import statement_timeout

LOCK_TIMEOUT = 3
"""Seconds that a migration waits for a table lock: all later queries wait for the migration."""
_MIGRATION_TIMEOUT = 60
"""Seconds that a start waits for the migrations of another node."""
_ADVISORY_LOCK = 0x617468656E61  # "athena" in ASCII


def missing_migrations() -> list[str]:
    """Return the migrations that the database does not have yet."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def unknown_migrations() -> list[str]:
    """Return the migrations of a newer version: the database has them, the code does not."""
    loader = MigrationExecutor(connection).loader
    known, apps = set(loader.graph.nodes), loader.migrated_apps
    replaced = {
        name for migration in loader.disk_migrations.values() for name in migration.replaces
    }
    unknown = set(loader.applied_migrations) - known - replaced
    return sorted(f"{app}.{name}" for app, name in unknown if app in apps)


@contextmanager
def migration_lock() -> Iterator[None]:
    """Serialise migrations of several nodes; give up rather than block traffic. PostgreSQL only."""
    if connection.vendor != "postgresql":
        yield
        return
    with statement_timeout(None):  # filling a column may take long
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{_MIGRATION_TIMEOUT}s'")
            cursor.execute("SELECT pg_advisory_lock(%s)", [_ADVISORY_LOCK])
            cursor.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}s'")
        try:
            yield
        finally:
            connection.close()  # releases the lock and resets the settings
