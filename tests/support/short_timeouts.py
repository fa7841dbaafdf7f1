"""Settings of gateways whose database is locked or frozen: it is given up after two seconds.

The product waits 5 seconds for a locked SQLite file, 12 for a frozen PostgreSQL server, and 10 for
threads that hang when the process ends.
"""

from django.apps import AppConfig

from tests.support.suite_settings import *  # noqa: F403
from tests.support.suite_settings import DATABASES, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.short_timeouts.ShortTimeouts"]
if "timeout" in DATABASES["default"]["OPTIONS"]:
    DATABASES["default"]["OPTIONS"]["timeout"] = 2


class ShortTimeouts(AppConfig):
    name = __name__
    label = "short_timeouts"

    def ready(self) -> None:
        from athena_site.postgresql import base
        from proxy.process import drain

        base.STATEMENT_SECONDS = base.LOCK_SECONDS = 1
        base._GRACE = 1.0
        base.Connection.patience = base.STATEMENT_SECONDS + base._GRACE
        drain._EXIT = 3.0
