"""The connection of a thread of the gateway's own to the database, kept from one look to the next.

Django would open one for each: two a second, each with a handshake. Pages are left to Django, whose
threads live no longer than a request.
"""

from django.db import close_old_connections, connection

_KEPT_SECONDS = 10
"""A file that was put in the place of another is noticed after so long."""


def renew_connection() -> None:
    """Begin to use the database: by the connection that there is, if it is good and not old."""
    if connection.settings_dict["CONN_MAX_AGE"] != _KEPT_SECONDS:
        # This thread's own: else the dictionary is every thread's.
        connection.settings_dict = {
            **connection.settings_dict,
            "CONN_MAX_AGE": _KEPT_SECONDS,
            "CONN_HEALTH_CHECKS": True,
        }
    close_old_connections()
