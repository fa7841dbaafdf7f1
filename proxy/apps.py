"""Django app of the gateway."""

import gc
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_save
from simple_history.signals import pre_create_historical_record


class ProxyConfig(AppConfig):
    name = "proxy"
    verbose_name = "Gateway"

    def ready(self) -> None:
        # The only use of signals: every change of the configuration advances its version, whether
        # made by the admin, the API, a command, a fixture or a cascade.
        from proxy import checks  # noqa: F401
        from proxy.models import CONFIGURATION, ConfigurationVersion, Upstream
        from proxy.security.secret_headers import mask_secrets

        def set_version(sender: Any, history_instance: Any, **kwargs: Any) -> None:
            history_instance.version = ConfigurationVersion.advance()

        def advance_version(sender: Any, raw: bool, **kwargs: Any) -> None:
            if raw:  # rows of fixtures have no history record
                ConfigurationVersion.advance()

        def mask_headers(sender: Any, history_instance: Any, **kwargs: Any) -> None:
            history_instance.headers = mask_secrets(history_instance.headers)

        pre_create_historical_record.connect(
            mask_headers, sender=Upstream.history.model, weak=False
        )
        for model in CONFIGURATION:
            pre_create_historical_record.connect(
                set_version, sender=model.history.model, weak=False
            )
            post_save.connect(advance_version, sender=model, weak=False)

        # Imported objects live forever: exclude them from garbage collection, which `manage.py`
        # disabled during the start.
        gc.freeze()
        gc.enable()
