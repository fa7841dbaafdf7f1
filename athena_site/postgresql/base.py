"""Django's PostgreSQL, with an end to every wait.

A server that is frozen, or a machine that vanished behind a firewall, answers nothing and closes
nothing: its own time-outs do not run, and TCP sees no fault. So the client's side counts, too, and
gives the connection up. Whoever needs longer than a page may asks for patience.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, TypeVar

import psycopg
from django.db import InternalError
from django.db.backends.postgresql import base
from psycopg import errors

STATEMENT_SECONDS = 10
LOCK_SECONDS = 5
_GRACE = 2.0
"""Seconds that the client waits longer than the server: its word is the better one."""
_IDLE_SECONDS = 60
"""Seconds after which the server gives back the locks of a client that went silent."""

_T = TypeVar("_T")


class Connection(psycopg.Connection[Any]):
    patience: float | None = STATEMENT_SECONDS + _GRACE
    """Seconds for one exchange with the server; None for no limit."""

    def wait(
        self, gen: Generator[Any, Any, _T], interval: float = 0.1, timeout: float | None = None
    ) -> _T:
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except errors._WaitTimeout as error:
            if timeout is not None:
                raise
            self.pgconn.finish()  # whatever it is at, nobody listens any more
            raise errors.ConnectionTimeout("the database does not answer") from error


class DatabaseWrapper(base.DatabaseWrapper):
    Database: Any = SimpleNamespace(**{**vars(psycopg), "connect": Connection.connect})

    def init_connection_state(self) -> None:
        super().init_connection_state()
        # Not among the parameters of the connection: poolers refuse those.
        self._limit(STATEMENT_SECONDS)

    @contextmanager
    def patience(self, seconds: int | None) -> Iterator[None]:
        """Let each statement of this connection take so long."""
        self.ensure_connection()
        self._limit(seconds)
        try:
            yield
        finally:
            # In a transaction that has failed nothing can be set; what was is rolled back with it.
            if self.connection is not None and not self.connection.closed:
                with suppress(InternalError):
                    self._limit(STATEMENT_SECONDS)

    def _limit(self, seconds: int | None) -> None:
        idle = 0 if seconds is None else _IDLE_SECONDS
        with self.wrap_database_errors:
            self.connection.execute(
                f"SET statement_timeout = {(seconds or 0) * 1000};"
                f"SET lock_timeout = {LOCK_SECONDS * 1000};"
                f"SET idle_in_transaction_session_timeout = {idle * 1000}"
            )
        self.connection.patience = None if seconds is None else seconds + _GRACE
