"""Rows that the URLs of the access table point to."""

import logging

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core.cache import cache

from proxy.configuration.history import version_of
from proxy.models import (
    ClientKey,
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    ModelRoute,
    Upstream,
)
from proxy.roles import SUPPORT
from tests.support.muse import MUSE
from tests.support.stored_exchanges import configure, failure_group, leaked_kimi


@pytest.fixture
def url_parts(db, settings, tmp_path):
    """Create a row of every model; return the values of the variable parts of URLs."""
    settings.DATA_DIR = tmp_path
    configure()
    cache.clear()
    upstream = Upstream.objects.create(name="spare", base_url="http://127.0.0.1:9/v1")
    key = ClientKey(label="spare")
    key.adopt("sk-athena-of-the-access-test")
    key.save()
    exchange, group = leaked_kimi(), failure_group()
    rows = {
        "auth/group": Group.objects.get(name=SUPPORT),
        "auth/user": User.objects.get(is_superuser=True),
        "proxy/upstream": upstream,
        "proxy/modelroute": ModelRoute.objects.create(pattern="spare-*", upstream=upstream),
        "proxy/formatoverride": FormatOverride.objects.create(pattern="spare-*", format="kimi"),
        "proxy/formatdefinition": FormatDefinition.objects.create(name="spare", definition=MUSE),
        "proxy/formatsettings": FormatSettings.objects.get(format="kimi"),
        "proxy/gatewaysettings": apps.get_model("proxy", "GatewaySettings").objects.get(),
        "proxy/clientkey": key,
    }
    logging.disable(logging.WARNING)  # tracebacks of denied requests would take most of the time
    yield {
        "request_id": exchange.request_id,
        "pk": group.pk,
        "rows": {model: row.pk for model, row in rows.items()},
        "versions": {
            model: version_of(row) for model, row in rows.items() if model.startswith("proxy")
        },
        "exchange": exchange.pk,
    }
    logging.disable(logging.NOTSET)
    cache.clear()
