"""Persistent database connections of the gateway's background threads.

Django would open a new connection for each use: two a second, each with a handshake. Pages keep
Django's behaviour, because their threads live only as long as a request.
"""

from django.db import close_old_connections, connection

_MAX_AGE_SECONDS = 10
"""Limits how long a replaced SQLite file stays unnoticed."""


def renew_connection() -> None:
    """Prepare this thread's connection for use; replace it if it is broken or too old."""
    if connection.settings_dict["CONN_MAX_AGE"] != _MAX_AGE_SECONDS:
        # A copy: the original dictionary is shared by all threads.
        connection.settings_dict = {
            **connection.settings_dict,
            "CONN_MAX_AGE": _MAX_AGE_SECONDS,
            "CONN_HEALTH_CHECKS": True,
        }
    close_old_connections()
