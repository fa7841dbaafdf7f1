"""Everything that waits or remembers: routing, upstreams, relaying, audit."""

import gc
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_save
from simple_history.signals import pre_create_historical_record


class ProxyConfig(AppConfig):
    name = "proxy"
    verbose_name = "Gateway"

    def ready(self) -> None:
        # The one use of signals: a change must reach every process however it was made, through
        # the admin, the API, a command, a fixture or a cascade.
        from proxy import checks  # noqa: F401
        from proxy.models import CONFIGURATION, ConfigurationVersion, Upstream
        from proxy.security.secret_headers import mask_secrets

        def stamp(sender: Any, history_instance: Any, **kwargs: Any) -> None:
            history_instance.version = ConfigurationVersion.advance()

        def advance(sender: Any, raw: bool, **kwargs: Any) -> None:
            if raw:  # a fixture's rows leave no record
                ConfigurationVersion.advance()

        def conceal(sender: Any, history_instance: Any, **kwargs: Any) -> None:
            history_instance.headers = mask_secrets(history_instance.headers)

        pre_create_historical_record.connect(conceal, sender=Upstream.history.model, weak=False)
        for model in CONFIGURATION:
            pre_create_historical_record.connect(stamp, sender=model.history.model, weak=False)
            post_save.connect(advance, sender=model, weak=False)

        # All that was imported stays: nobody looks for garbage in it, as `manage.py` has begun it.
        gc.freeze()
        gc.enable()
