"""A private PostgreSQL server in a temporary directory, which tests may stop and freeze."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import LiteralString, Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.support.ports import free_port

_HOST = "127.0.0.1"
_USER = "postgres"
_PATIENCE = 60  # seconds for a start, or for recovery after an immediate stop
_numbers = count(1)


class PostgresMissing(Exception):
    """PostgreSQL is not installed on this machine."""


def programs() -> Path:
    """Return the folder of the server's programs, which Debian does not put on the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not versions:
        raise PostgresMissing("PostgreSQL's initdb is not installed")
    return versions[-1].parent


def create_database(server_url: str, *, template: str = "template0") -> str:
    """Make a database, empty or a copy of an unused one, and return its URL.

    Its name begins with that of the database of the URL.
    """
    name = f"{server_url.rpartition('/')[2]}_{os.getpid()}_{next(_numbers)}"
    with _connect_elsewhere(server_url) as connection:
        connection.execute(_creation(name, template))
    return urlsplit(server_url)._replace(path=f"/{name}").geturl()


def replace_database(server_url: str, name: str, *, template: str) -> None:
    """Drop a database, despite open connections, and create it again as a copy."""
    with _connect_elsewhere(server_url) as connection:
        statement = sql.SQL("DROP DATABASE {} WITH (FORCE)")
        connection.execute(statement.format(sql.Identifier(name)))
        connection.execute(_creation(name, template))


def _connect_elsewhere(server_url: str) -> psycopg.Connection:
    """A template cannot be copied while anything is connected to it."""
    elsewhere = urlsplit(server_url)._replace(path="/postgres").geturl()
    return psycopg.connect(elsewhere, autocommit=True)


def _creation(name: str, template: str) -> sql.Composed:
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    return statement.format(sql.Identifier(name), sql.Identifier(template))


class PostgresServer:
    """Runs within a `with` block; the options are those of `postgresql.conf`."""

    def __init__(self, **options: object) -> None:
        self._programs = programs()
        self._options = {
            "fsync": "off",  # the data is temporary; a killed server still recovers
            "max_connections": 300,
            **options,
        }
        self._folder = tempfile.TemporaryDirectory(prefix="athena-postgres-")
        # The server refuses to run as root.
        self._user = _USER if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._folder.name, self._user)
        self._data = f"{self._folder.name}/data"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"postgres://{_USER}@{_HOST}:{self.port}/postgres"
        subprocess.run(
            [
                *(self._programs / "initdb", "-D", self._data, "-U", _USER, "-A", "trust"),
                *("-E", "UTF8", "-N"),
            ],
            check=True,
            capture_output=True,
            user=self._user,
            cwd=self._folder.name,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def log(self) -> str:
        return Path(f"{self._folder.name}/log").read_text(errors="replace")

    def start(self) -> None:
        """Start the server, also again after a stop, and return when it answers queries."""
        with open(f"{self._folder.name}/log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self._data, "-h", _HOST),
                    *("-p", str(self.port), "-k", self._folder.name),
                    *(f"-c{name}={value}" for name, value in self._options.items()),
                ],
                user=self._user,
                cwd=self._folder.name,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self.query("SELECT 1")
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"PostgreSQL did not start:\n{self.log}") from None
                time.sleep(0.05)
            else:
                return

    def stop(self, *, immediate: bool = True) -> None:
        """Stop the server: immediately, like a crash, or after closing its connections."""
        if self._process is None:
            return
        self.thaw()
        self._process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
        self._process.wait(_PATIENCE)
        self._process = None

    def freeze(self) -> None:
        """Suspend all its processes: connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def create_database(self, *, template: str = "template0") -> str:
        """Make a database and return its URL."""
        return create_database(self.url, template=template)

    def query(self, text: LiteralString) -> list[tuple[object, ...]]:
        """Run a query as the owner of the server."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
            return connection.execute(text).fetchall()

    def close(self) -> None:
        self.stop()
        self._folder.cleanup()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the server is not running"
        pid = self._process.pid
        os.kill(pid, number)  # first, so that it starts no more children
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            try:
                os.kill(int(child), number)
            except ProcessLookupError:
                continue  # it has ended in the meantime
