"""Databases of the gateways that tests start.

They are SQLite files in the data directories or, when `DATABASE_URL` names a PostgreSQL database,
further databases on that server. Each is a copy of a migrated template, because migrations take
seconds.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
from lz4.block import decompress
from psycopg.rows import dict_row

from tests.support.postgres_server import create_database, replace_database

_TEMPLATE_URL = os.environ.get("DATABASE_URL", "")
IS_POSTGRES = _TEMPLATE_URL.startswith("postgres")
# Columns that hold JSON: SQLite returns them as text.
_JSON = {"notices", "attempts", "headers", "tools", "reading", "arrivals", "events", "left_out"}
_urls: dict[Path, str] = {}
_SHARED = "TESTS_SHARED_FOLDER"
refused_test = ""
"""The running test, if `postgres_selection` does not know that it uses the database."""

of_sqlite = pytest.mark.skipif(IS_POSTGRES, reason="it tests SQLite: make test runs it")
of_postgres = pytest.mark.skipif(
    not IS_POSTGRES, reason="it tests PostgreSQL: make test-postgres runs it"
)


def database_url(data_dir: Path) -> str:
    """Return the URL of the database of a data directory, which its gateways share."""
    assert not refused_test, f"{refused_test} starts a gateway: see postgres_selection.py"
    if not IS_POSTGRES:
        path = data_dir / "athena.sqlite3"
        if data_dir.exists() and not path.exists():  # else the gateway creates it
            path.touch(0o600)
            path.write_bytes(_migrated_file())
        return f"sqlite:///{path}"
    if data_dir not in _urls:
        template = _TEMPLATE_URL.rpartition("/")[2]
        _urls[data_dir] = create_database(_TEMPLATE_URL, template=template)
    return _urls[data_dir]


def empty_database_url(data_dir: Path) -> str:
    """Return the URL of a database without tables, for a new data directory."""
    if IS_POSTGRES:
        return create_database(_TEMPLATE_URL)
    return f"sqlite:///{data_dir / 'athena.sqlite3'}"


@contextmanager
def shared_by_workers() -> Iterator[None]:
    """Make a folder in which one worker puts files for all workers, which inherit its name."""
    if _SHARED in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ[_SHARED] = folder
        yield
        del os.environ[_SHARED]


@cache
def _migrated_file() -> bytes:
    """Return the content of a migrated SQLite file; one worker runs the migrations for all."""
    with shared_by_workers(), (Path(os.environ[_SHARED]) / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        path = Path(os.environ[_SHARED]) / "athena.sqlite3"
        if not path.exists():
            _migrate(path.with_name("unfinished"))
            path.with_name("unfinished").rename(path)
        return path.read_bytes()


def _migrate(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": os.environ["PATH"],
            "ATHENA_DATA_DIR": folder,
            "DATABASE_URL": f"sqlite:///{path}",
        }
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(migrate, check=True, env=environment, cwd=Path(__file__).parents[2])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _fill(database: sqlite3.Connection) -> None:
    """Replace the content of a database by the tables and rows of a migrated one."""
    data = bytearray(_migrated_file())
    data[18:20] = 1, 1  # read and written without a write-ahead log, which is a file
    with closing(sqlite3.connect(":memory:")) as migrated:
        migrated.deserialize(data)
        migrated.backup(database)


def restore_test_database() -> None:
    """Replace the database of the tests by a fresh copy of the migrated one.

    Django deletes all rows after a transactional test, also those that migrations made, such as the
    groups of the roles. Workers take tests from each other, so others may follow in any order.
    """
    from django.db import connection

    if not IS_POSTGRES:
        _fill(connection.connection)
        return
    connection.close()
    replace_database(
        _TEMPLATE_URL,
        str(connection.settings_dict["NAME"]),
        template=str(connection.settings_dict["TEST"]["TEMPLATE"]),
    )


def last_migration() -> str:
    from django.db.migrations.loader import MigrationLoader

    return max(name for app, name in MigrationLoader(None).disk_migrations if app == "proxy")


def dump(url: str) -> str:
    """Return the content of all tables as text."""
    tables = "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'"
    if not url.startswith("postgres"):
        tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    rows = [row for table in read_rows(url, tables) for row in _all_rows(url, table["name"])]
    values = [value for row in rows for value in row.values()]
    values += [decompress(row["packed"]) for row in rows if row.get("packed")]
    return "\n".join(v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in values)


def _as_in_sqlite(value: Any) -> Any:
    return str(value.astimezone(UTC).replace(tzinfo=None)) if isinstance(value, datetime) else value


def _all_rows(url: str, table: str) -> list[dict[str, Any]]:
    return read_rows(url, f'SELECT * FROM "{table}"')  # noqa: S608  the name comes from the database


def read_rows(url: str, query: str, *values: Any) -> list[dict[str, Any]]:
    """Query a database of either kind; `?` stands for a value.

    JSON columns are decoded, and times are text.
    """
    if url.startswith("postgres"):
        text = query.replace("%", "%%").replace("?", "%s")
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            found = cursor.execute(text.encode(), values).fetchall()
        return [{name: _as_in_sqlite(value) for name, value in row.items()} for row in found]
    path = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as database:
        database.row_factory = sqlite3.Row
        found = [dict(row) for row in database.execute(query, values)]
    for row in found:
        row.update({name: json.loads(row[name]) for name in row.keys() & _JSON})
    return found
