"""Everything that waits or remembers: routing, upstreams, relaying, audit."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_delete, post_save


class ProxyConfig(AppConfig):
    name = "proxy"
    verbose_name = "Gateway"

    def ready(self) -> None:
        # The one use of signals: a change must reach every process however it was made, through
        # the admin, the API, a command, a fixture or a cascade.
        from proxy.models import CONFIGURATION, ConfigurationVersion

        def advance(sender: Any, **kwargs: Any) -> None:
            ConfigurationVersion.advance()

        for model in CONFIGURATION:
            for signal in (post_save, post_delete):
                signal.connect(advance, sender=model, weak=False)
