"""Django's PostgreSQL backend with a timeout on every wait.

A frozen server, or a machine that disappeared from the network, neither answers nor closes the
connection: the server's own timeouts do not fire, and TCP reports no error. The client therefore
measures the time too and drops the connection. Code that needs more time uses
`DatabaseWrapper.patience`.
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
"""Seconds that the client waits longer than the server, whose error message is more precise."""
_IDLE_SECONDS = 60
"""Seconds after which the server releases the locks of a silent client."""

_T = TypeVar("_T")


class Connection(psycopg.Connection[Any]):
    patience: float | None = STATEMENT_SECONDS + _GRACE
    """Seconds for one round trip to the server; None for no limit."""

    def wait(
        self, gen: Generator[Any, Any, _T], interval: float = 0.1, timeout: float | None = None
    ) -> _T:
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except errors._WaitTimeout as error:
            if timeout is not None:
                raise
            self.pgconn.finish()  # close without waiting for the server
            raise errors.ConnectionTimeout("the database does not answer") from error


class DatabaseWrapper(base.DatabaseWrapper):
    Database: Any = SimpleNamespace(**{**vars(psycopg), "connect": Connection.connect})

    def init_connection_state(self) -> None:
        super().init_connection_state()
        # Set by statement, because connection poolers reject these as connection parameters.
        self._set_timeouts(STATEMENT_SECONDS)

    @contextmanager
    def patience(self, seconds: int | None) -> Iterator[None]:
        """Allow each statement in the block this many seconds; None for no limit."""
        self.ensure_connection()
        self._set_timeouts(seconds)
        try:
            yield
        finally:
            # A failed transaction accepts no SET; its rollback restores the old values.
            if self.connection is not None and not self.connection.closed:
                with suppress(InternalError):
                    self._set_timeouts(STATEMENT_SECONDS)

    def _set_timeouts(self, seconds: int | None) -> None:
        idle = 0 if seconds is None else _IDLE_SECONDS
        with self.wrap_database_errors:
            self.connection.execute(
                f"SET statement_timeout = {(seconds or 0) * 1000};"
                f"SET lock_timeout = {LOCK_SECONDS * 1000};"
                f"SET idle_in_transaction_session_timeout = {idle * 1000}"
            )
        self.connection.patience = None if seconds is None else seconds + _GRACE
