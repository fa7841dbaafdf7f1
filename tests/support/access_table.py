"""Access table: which role may use which method of which URL. Anything unlisted is denied.

URLs come from the URLconf; a test fails if the table does not list one of them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from proxy.models import Exchange
from proxy.roles import DEVELOPERS, OPERATORS, SUPPORT

ANONYMOUS, STAFF, SUPERUSER = "anonymous", "staff", "superuser"
ROLES = (ANONYMOUS, STAFF, SUPPORT, OPERATORS, DEVELOPERS, SUPERUSER)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

NO_ROLE: frozenset[str] = frozenset()
ALL_ROLES = frozenset(ROLES)
ALL_STAFF = ALL_ROLES - {ANONYMOUS}
SUPPORTERS = frozenset({SUPPORT, SUPERUSER})
CONFIGURERS = frozenset({OPERATORS, SUPERUSER})
READERS = SUPPORTERS | CONFIGURERS


@dataclass(frozen=True)
class Rule:
    """Roles that may use each method of a URL."""

    roles: Mapping[str, frozenset[str]]
    body: Mapping[str, Any] = field(default_factory=dict)

    def allows(self, role: str, method: str) -> bool:
        return role in self.roles.get(method, NO_ROLE)


def rule(get=NO_ROLE, post=NO_ROLE, patch=NO_ROLE, delete=NO_ROLE, body=None):
    return Rule({"GET": get, "POST": post, "PATCH": patch, "DELETE": delete}, body or {})


def any_method(roles):
    """For Django views that treat every method as GET or POST."""
    return Rule(dict.fromkeys(METHODS, roles))


def model_pages(name, roles, *, add=True, delete=True):
    """Rules of the admin pages of a model."""
    pages = dict.fromkeys(("changelist", "add", "history", "delete", "change"), any_method(roles))
    if not add:
        pages["add"] = rule()
    if not delete:
        pages["delete"] = rule()
    if name.startswith("proxy_"):
        pages["revert"] = rule(post=roles)
    return {f"admin:{name}_{page}": page_rule for page, page_rule in pages.items()}


def model_endpoints(name, *, create=False, delete=False, readers=CONFIGURERS):
    """Rules of the API endpoints of a configuration model."""
    creators, deleters = (CONFIGURERS if allowed else NO_ROLE for allowed in (create, delete))
    return {
        f"api:{name}-list": rule(get=readers, post=creators),
        f"api:{name}-detail": rule(get=readers, patch=CONFIGURERS, delete=deleters),
        f"api:{name}-history": rule(get=readers),
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
    **model_endpoints("upstream", create=True, delete=True),
    **model_endpoints("route", create=True, delete=True),
    **model_endpoints("override", create=True, delete=True),
    **model_endpoints("definition", create=True, delete=True, readers=READERS),
    **model_endpoints("format"),
    **model_endpoints("key", create=True),
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
    "configuration:format": rule(get=READERS),
    "configuration:changes": rule(get=CONFIGURERS),
    "configuration:test": rule(get=CONFIGURERS, post=CONFIGURERS),
    "configuration:models": rule(get=CONFIGURERS),
    "configuration:claude_names": rule(get=CONFIGURERS, post=CONFIGURERS),
    "configuration:rotate_key": rule(get=CONFIGURERS, post=CONFIGURERS),
    "configuration:revoke_key": rule(get=CONFIGURERS, post=CONFIGURERS),
    "admin:index": rule(get=ALL_STAFF),  # redirects to the dashboard or the first allowed page
    "configuration:page": rule(get=CONFIGURERS),
    "configuration:export": rule(get=CONFIGURERS),
    "configuration:difference": rule(post=CONFIGURERS, body={"text": "athena: 1"}),
    "configuration:import": rule(post=CONFIGURERS, body={"text": "athena: 1", "version": 1}),
    "admin:app_list": any_method(READERS),
    "admin:login": Rule(dict.fromkeys(("GET", "POST", "PUT"), ALL_ROLES)),
    # Anonymous users are redirected to the index.
    "admin:logout": Rule(dict.fromkeys(METHODS, frozenset({ANONYMOUS})) | {"POST": ALL_ROLES}),
    "admin:password_change": Rule(dict.fromkeys(("GET", "POST", "PUT"), ALL_STAFF)),
    "admin:password_change_done": rule(get=ALL_STAFF),
    "admin:autocomplete": rule(),  # denied without a field
    "admin:jsi18n": rule(get=ALL_STAFF),
    "admin:view_on_site": any_method(ALL_STAFF),
    "admin:auth_user_password_change": any_method(frozenset({SUPERUSER})),
    **model_pages("auth_group", frozenset({SUPERUSER})),
    **model_pages("auth_user", frozenset({SUPERUSER})),
    **model_pages("proxy_upstream", CONFIGURERS),
    **model_pages("proxy_modelroute", CONFIGURERS),
    **model_pages("proxy_formatoverride", CONFIGURERS),
    **model_pages("proxy_formatdefinition", CONFIGURERS),
    "admin:proxy_formatdefinition_changelist": any_method(READERS),
    "admin:proxy_formatdefinition_history": any_method(READERS),
    # Without the right to change it, the form redirects to the format's own page.
    "admin:proxy_formatdefinition_change": Rule(
        dict.fromkeys(METHODS, READERS) | {"POST": CONFIGURERS}
    ),
    **model_pages("proxy_clientkey", CONFIGURERS, delete=False),
    **model_pages("proxy_formatsettings", CONFIGURERS, add=False, delete=False),
    **model_pages("proxy_gatewaysettings", CONFIGURERS, add=False, delete=False),
    # An old admin URL redirects to the new one, which checks the role.
    "admin/*/<path:object_id>/": any_method(ALL_STAFF),
    "admin/(?P<url>.*)$": rule(),
}

# Models of the API endpoints.
MODELS = {
    "api/^upstreams": "proxy/upstream",
    "api/^routes": "proxy/modelroute",
    "api/^overrides": "proxy/formatoverride",
    "api/^definitions": "proxy/formatdefinition",
    "api/^formats": "proxy/formatsettings",
    "api/^keys": "proxy/clientkey",
    "api/settings": "proxy/gatewaysettings",
}

# URLs of the gateway handler, which needs a client key and has no sessions: status without a key.
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
    "metrics": {"GET": 200},  # from this machine; see test_metrics.py for others
    "api/hello": {"GET": 200},
    "": {"GET": 302},
}


def urls(patterns=None, route="", spaces=()) -> Iterator[tuple[str, str]]:
    """Yield the key in the table and the route of every URL."""
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


def address(route, url_parts):
    """Fill the variable parts of a route."""
    table = MODELS.get("/".join(route.split("/")[:2]))
    table = table or route.removeprefix("admin/").partition("/<")[0]
    number = str(url_parts["rows"].get(table, url_parts["exchange"]))
    values = {
        "request_id": url_parts["request_id"],
        "pk": number if table in url_parts["versions"] else str(url_parts["pk"]),
        "version": str(url_parts["versions"].get(table)),
        "id": number,
        "object_id": number,
        "content_type_id": str(ContentType.objects.get_for_model(Exchange).pk),
        "app_label": "proxy",
        "url": "nowhere/",
        "name": "kimi" if table in ("proxy/formatsettings", "formats") else "some/model",
        "path": "nowhere",
    }
    path = re.sub(r"\(\?P<(\w+)>[^)]*\)", lambda match: values[match[1]], route)
    path = re.sub(r"<(?:\w+:)?(\w+)>", lambda match: values[match[1]], path)
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
