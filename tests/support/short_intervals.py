"""Settings and an app that let a gateway under test look for changes ten times as often.

A gateway reads the version of its configuration and writes its audit rows once a second. Tests wait
for both hundreds of times. Nothing else differs from the product; tests that prove how long an
operator waits run with `athena_site.settings`.
"""

from django.apps import AppConfig

from athena_site.settings import *  # noqa: F403
from athena_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.short_intervals.ShortIntervals"]


class ShortIntervals(AppConfig):
    name = "tests.support"
    label = "short_intervals"

    def ready(self) -> None:
        from proxy.audit import recorder
        from proxy.configuration import live
        from proxy.process import heartbeat

        recorder._INTERVAL = live._INTERVAL = 0.1
        recorder._LOOK_FOR_DEAD = 0.5
        heartbeat._INTERVAL = 0.2
