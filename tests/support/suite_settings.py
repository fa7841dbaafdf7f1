"""Settings of the gateways that tests start: shorter intervals, and a cheap password hash.

A gateway reads the version of its configuration and writes its audit rows once a second. Tests wait
for both hundreds of times, so here it is ten times as often. Redis gets longer to answer, because a
busy machine must not look like an outage. The product's password hash is a third of the CPU time of
a start. Everything else is as in the product. Tests that prove how long an operator waits run with
`athena_site.settings`.
"""

from django.apps import AppConfig

from athena_site.settings import *  # noqa: F403
from athena_site.settings import INSTALLED_APPS, PASSWORD_HASHERS

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *PASSWORD_HASHERS]
INSTALLED_APPS = [*INSTALLED_APPS, "tests.support.suite_settings.ShortIntervals"]


class ShortIntervals(AppConfig):
    name = __name__
    label = "short_intervals"

    def ready(self) -> None:
        from proxy.audit import recorder
        from proxy.configuration import live
        from proxy.process import heartbeat
        from proxy.serving import redis_rate

        recorder._WRITE_INTERVAL = live._INTERVAL = 0.1
        recorder._RECOVERY_INTERVAL = 0.5
        heartbeat._INTERVAL = 0.2
        redis_rate._RECONNECT_SECONDS = 0.1
        redis_rate._TIMEOUT_SECONDS = 2.0
