"""Who may use which method of which URL.

The tables are complete: what they do not list is denied. URLs come from the URLconf.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.core.cache import cache
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from proxy.configuration.history import version_of
from proxy.models import ClientKey, Exchange, FormatOverride, FormatSettings, ModelRoute, Upstream
from proxy.roles import DEVELOPERS, OPERATORS, SUPPORT
from tests.support.stored_exchanges import configure, failure_group, leaked_kimi

ANONYMOUS, STAFF, SUPERUSER = "anonymous", "staff", "superuser"
ROLES = (ANONYMOUS, STAFF, SUPPORT, OPERATORS, DEVELOPERS, SUPERUSER)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
NOBODY: frozenset[str] = frozenset()
EVERYBODY = frozenset(ROLES)
ALL_STAFF = EVERYBODY - {ANONYMOUS}
SUPPORTERS = frozenset({SUPPORT, SUPERUSER})
CONFIGURERS = frozenset({OPERATORS, SUPERUSER})
READERS = SUPPORTERS | CONFIGURERS


@dataclass(frozen=True)
class Rule:
    """Who may use which method."""

    may: Mapping[str, frozenset[str]]
    body: Mapping[str, Any] = field(default_factory=dict)

    def allows(self, role: str, method: str) -> bool:
        return role in self.may.get(method, NOBODY)


def rule(get=NOBODY, post=NOBODY, patch=NOBODY, delete=NOBODY, body=None):
    return Rule({"GET": get, "POST": post, "PATCH": patch, "DELETE": delete}, body or {})


def any_method(roles):
    """Views of Django's that take every method for GET, or for POST."""
    return Rule(dict.fromkeys(METHODS, roles))


def model_pages(name, roles, *, add=True, delete=True):
    """The admin's pages of a table."""
    pages = dict.fromkeys(("changelist", "add", "history", "delete", "change"), any_method(roles))
    if not add:
        pages["add"] = rule()
    if not delete:
        pages["delete"] = rule()
    if name.startswith("proxy_"):
        pages["revert"] = rule(post=roles)
    return {f"admin:{name}_{page}": found for page, found in pages.items()}


def table_endpoints(name, *, make=False, delete=False):
    """The API's endpoints of a table of the configuration."""
    made, deleted = (CONFIGURERS if may else NOBODY for may in (make, delete))
    return {
        f"api:{name}-list": rule(get=CONFIGURERS, post=made),
        f"api:{name}-detail": rule(get=CONFIGURERS, patch=CONFIGURERS, delete=deleted),
        f"api:{name}-history": rule(get=CONFIGURERS),
        f"api:{name}-revert": rule(post=CONFIGURERS),
    }


TABLE: dict[str, Rule] = {
    "api:exchange-list": rule(get=READERS),
    "api:exchange-detail": rule(get=READERS),
    "api:exchange-replays": rule(get=SUPPORTERS, post=SUPPORTERS),
    "api:group-list": rule(get=READERS),
    "api:group-detail": rule(get=READERS, patch=SUPPORTERS, body={"state": "open"}),
    "api:group-comments": rule(get=READERS, post=SUPPORTERS, body={"text": "seen"}),
    "api:transcript-detail": rule(get=SUPPORTERS),
    **table_endpoints("upstream", make=True, delete=True),
    **table_endpoints("route", make=True, delete=True),
    **table_endpoints("override", make=True, delete=True),
    **table_endpoints("format"),
    **table_endpoints("key", make=True),
    "api:key-revoke": rule(post=CONFIGURERS),
    "api:key-rotate": rule(post=CONFIGURERS),
    "api:settings": rule(get=CONFIGURERS, patch=CONFIGURERS),
    "api:settings-history": rule(get=CONFIGURERS),
    "api:settings-revert": rule(post=CONFIGURERS),
    "api:configuration": rule(get=CONFIGURERS),
    "api:resolve": rule(get=CONFIGURERS),
    "api:schema": rule(get=ALL_STAFF),
    "api:docs": rule(get=ALL_STAFF),
    "audit:dashboard": rule(get=ALL_STAFF),
    "audit:list": rule(get=READERS),
    "audit:exchange": rule(get=READERS),
    "audit:fixture": rule(get=SUPPORTERS),
    "audit:replay": rule(post=SUPPORTERS),
    "audit:override": rule(post=CONFIGURERS),
    "audit:group": rule(get=READERS),
    "audit:care": rule(post=SUPPORTERS, body={"state": "open"}),
    "audit:comment": rule(post=SUPPORTERS, body={"text": "seen"}),
    "audit:replay_group": rule(post=SUPPORTERS),
    "audit:playground": rule(get=SUPPORTERS, post=SUPPORTERS),
    "audit:usage": rule(get=frozenset({DEVELOPERS, SUPERUSER})),
    "audit:end_sessions": rule(get=ALL_STAFF, post=ALL_STAFF),
    "configuration:rules": rule(get=CONFIGURERS),
    "configuration:changes": rule(get=CONFIGURERS),
    "configuration:test": rule(get=CONFIGURERS, post=CONFIGURERS),
    "configuration:models": rule(get=CONFIGURERS),
    "configuration:rotate_key": rule(get=CONFIGURERS, post=CONFIGURERS),
    "configuration:revoke_key": rule(get=CONFIGURERS, post=CONFIGURERS),
    "admin:index": rule(get=ALL_STAFF),  # the dashboard, or what is below it
    "configuration:page": rule(get=CONFIGURERS),
    "configuration:export": rule(get=CONFIGURERS),
    "configuration:difference": rule(post=CONFIGURERS, body={"text": "athena: 1"}),
    "configuration:import": rule(post=CONFIGURERS, body={"text": "athena: 1", "version": 1}),
    "admin:app_list": any_method(CONFIGURERS),
    "admin:login": Rule(dict.fromkeys(("GET", "POST", "PUT"), EVERYBODY)),
    # Who is nobody yet is only sent to the index.
    "admin:logout": Rule(dict.fromkeys(METHODS, frozenset({ANONYMOUS})) | {"POST": EVERYBODY}),
    "admin:password_change": Rule(dict.fromkeys(("GET", "POST", "PUT"), ALL_STAFF)),
    "admin:password_change_done": rule(get=ALL_STAFF),
    "admin:autocomplete": rule(),  # without a field it is for nobody
    "admin:jsi18n": rule(get=ALL_STAFF),
    "admin:view_on_site": any_method(ALL_STAFF),
    "admin:auth_user_password_change": any_method(frozenset({SUPERUSER})),
    **model_pages("auth_group", frozenset({SUPERUSER})),
    **model_pages("auth_user", frozenset({SUPERUSER})),
    **model_pages("proxy_upstream", CONFIGURERS),
    **model_pages("proxy_modelroute", CONFIGURERS),
    **model_pages("proxy_formatoverride", CONFIGURERS),
    **model_pages("proxy_clientkey", CONFIGURERS, delete=False),
    **model_pages("proxy_formatsettings", CONFIGURERS, add=False, delete=False),
    **model_pages("proxy_gatewaysettings", CONFIGURERS, add=False, delete=False),
    # An old address of the admin's leads on to the new one, which decides.
    "admin/*/<path:object_id>/": any_method(ALL_STAFF),
    "admin/(?P<url>.*)$": rule(),
}
# The tables that the API's endpoints are of.
TABLES = {
    "api/^upstreams": "proxy/upstream",
    "api/^routes": "proxy/modelroute",
    "api/^overrides": "proxy/formatoverride",
    "api/^formats": "proxy/formatsettings",
    "api/^keys": "proxy/clientkey",
    "api/settings": "proxy/gatewaysettings",
}
# Those of the slim handler: no session, no role, but a client's key. What it gets without one.
GATEWAY = {
    "v1/messages": {"POST": 401},
    "v1/messages/count_tokens": {"POST": 401},
    "v1/chat/completions": {"POST": 401},
    "v1/models": {"GET": 401},
    "v1/models/<path:name>": {"GET": 401},
    "v1/v1/messages": {"POST": 401},
    "v1/v1/messages/count_tokens": {"POST": 401},
    "v1/v1/models": {"GET": 401},
    "v1/v1/models/<path:name>": {"GET": 401},
    "chat/completions": {"POST": 401},
    "models": {"GET": 401},
    "models/<path:name>": {"GET": 401},
    "v1/<path:path>": dict.fromkeys(METHODS, 404),
    "demo/v1/chat/completions": {"POST": 401},
    "demo/v1/models": {"GET": 401},
    "healthz": {"GET": 200},
    "readyz": {"GET": 200},
    "metrics": {"GET": 200},  # from this machine; test_metrics.py has who else
    "api/hello": {"GET": 200},
    "": {"GET": 302},
}


def urls(patterns=None, route="", spaces=()) -> Iterator[tuple[str, str]]:
    """The key in the table and the route of every URL."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        whole = route + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            inner = (*spaces, pattern.namespace) if pattern.namespace else spaces
            yield from urls(pattern.url_patterns, whole, inner)
            continue
        assert isinstance(pattern, URLPattern)
        if pattern.name:
            yield ":".join((*spaces, pattern.name)), whole
        else:
            yield re.sub(r"^admin/\w+/\w+/<", "admin/*/<", whole), whole


URLS = sorted(urls())
PAGES = [(name, route) for name, route in URLS if name not in GATEWAY]


@pytest.fixture
def places(db, settings, tmp_path):
    """What stands in the URLs for the parts that vary, by the table that a page is of."""
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
        "proxy/formatsettings": FormatSettings.objects.get(format="kimi"),
        "proxy/gatewaysettings": apps.get_model("proxy", "GatewaySettings").objects.get(),
        "proxy/clientkey": key,
    }
    logging.disable(logging.WARNING)  # a traceback for every refusal is most of the time
    yield {
        "request_id": exchange.request_id,
        "pk": group.pk,
        "rows": {place: row.pk for place, row in rows.items()},
        "versions": {
            place: version_of(row) for place, row in rows.items() if place.startswith("proxy")
        },
        "exchange": exchange.pk,
    }
    logging.disable(logging.NOTSET)
    cache.clear()


def address(route, places):
    """A URL of the route."""
    table = TABLES.get("/".join(route.split("/")[:2]))
    table = table or route.removeprefix("admin/").partition("/<")[0]
    number = str(places["rows"].get(table, places["exchange"]))
    values = {
        "request_id": places["request_id"],
        "pk": number if table in places["versions"] else str(places["pk"]),
        "version": str(places["versions"].get(table)),
        "id": number,
        "object_id": number,
        "content_type_id": str(ContentType.objects.get_for_model(Exchange).pk),
        "app_label": "proxy",
        "url": "nowhere/",
        "name": "kimi" if table == "proxy/formatsettings" else "some/model",
        "path": "nowhere",
    }
    path = re.sub(r"\(\?P<(\w+)>[^)]*\)", lambda found: values[found[1]], route)
    path = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: values[found[1]], path)
    return "/" + path.replace("^", "").replace("$", "")


def client_of(role):
    client = Client(raise_request_exception=True)
    if role != ANONYMOUS:
        user, _ = User.objects.get_or_create(
            username=f"a {role}", defaults={"is_staff": True, "is_superuser": role == SUPERUSER}
        )
        user.groups.set(Group.objects.filter(name=role))
        client.force_login(user)
    return client


def send(client, method, url, body):
    if url.startswith("/api/"):
        return client.generic(method, url, json.dumps(body), "application/json")
    if method == "POST":
        return client.post(url, body)
    return client.generic(method, url)
