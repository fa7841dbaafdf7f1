"""Settings of a gateway for mixed exchanges: it suspects no upstream.

Otherwise, after the first late data, no connection would be reused for an hour.
"""

from django.apps import AppConfig

from tests.support.suite_settings import *  # noqa: F403
from tests.support.suite_settings import INSTALLED_APPS as _INSTALLED_APPS

INSTALLED_APPS = [*_INSTALLED_APPS, "tests.support.mixed_exchanges_settings.Unsuspecting"]


class Unsuspecting(AppConfig):
    name = __name__
    label = "unsuspecting"

    def ready(self) -> None:
        from proxy.upstreams.pool import ConnectionPool

        ConnectionPool._suspect = lambda self, origin: None  # type: ignore[method-assign]
