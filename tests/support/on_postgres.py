"""Runs pytest on PostgreSQL, with the given arguments: `make test-postgres`.

Uses the server of `DATABASE_URL`, whose user must be allowed to create databases, or else starts one
for the run. Databases that were created are dropped at the end.
"""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import sql

from tests.support.postgres_server import PostgresServer, create_database


def main() -> int:
    # Handled like Ctrl-C, so that no process outlives the run.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        given = os.environ.get("DATABASE_URL", "")
        template_url = create_database(given or stack.enter_context(PostgresServer()).url)
        if given:
            stack.callback(drop_databases, given, template_url.rpartition("/")[2])
        os.environ["DATABASE_URL"] = template_url
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(migrate, check=True)
        return int(pytest.main(sys.argv[1:]))


def drop_databases(server_url: str, prefix: str) -> None:
    """Drop the template and its copies."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        query = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"
        for (name,) in connection.execute(query, [prefix]).fetchall():
            statement = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(statement.format(sql.Identifier(name)))


if __name__ == "__main__":
    sys.exit(main())
