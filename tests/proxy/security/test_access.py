"""Every URL, role and method is allowed or denied as `tests/support/access_table.py` says.

Denied means 401, 403, 404, 405 or a redirect to the login page. A denied request changes nothing.
"""

import re

import httpx
import pytest
from django.apps import apps
from django.core.cache import cache

from tests.support.access_table import (
    GATEWAY,
    METHODS,
    PAGES,
    ROLES,
    STAFF,
    TABLE,
    URLS,
    address,
    client_of,
    send,
)
from tests.support.gateway import Gateway


def test_every_url_is_in_the_table_and_nothing_else_is():
    assert {name for name, _ in URLS} == TABLE.keys() | GATEWAY.keys()


def is_denied(response):
    if response.status_code in (302, 301):
        return response["location"].startswith("/admin/login/")
    return response.status_code in (401, 403, 404, 405)


def counts():
    """Count the rows of every model, except sessions."""
    models = [m for m in apps.get_models() if m._meta.app_label in ("auth", "proxy", "admin")]
    return {model.__name__: model._default_manager.count() for model in models}


@pytest.mark.parametrize("role", ROLES)
def test_every_url_and_method_allows_the_roles_of_the_table(url_parts, role, settings):
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    entries = [(name, route, method) for name, route in PAGES for method in METHODS]
    denied = [entry for entry in entries if not TABLE[entry[0]].allows(role, entry[2])]
    client_of(role)  # creates the user
    before, wrong = counts(), []
    for name, url, method, status in walk(role, denied, url_parts):
        if status is not None:
            wrong.append(f"{method} {url} ({name}) must be denied to {role}: {status}")
    assert counts() == before, "a denied request changed rows"
    # Admin views treat the other methods as GET: rendering them once is enough.
    rendered = ("GET", "POST")
    allowed = [
        (name, route, method)
        for name, route, method in entries
        if TABLE[name].allows(role, method) and (method in rendered or not name.startswith("admin"))
    ]
    for name, url, method, status in walk(role, allowed, url_parts):
        if status is None:
            wrong.append(f"{method} {url} ({name}) must be allowed to {role}")
        elif status >= 500:
            wrong.append(f"{method} {url} ({name}) fails: {status}")
    assert not wrong, "\n".join(wrong)


def walk(role, entries, url_parts):
    """Request each URL; yield the status, or None if it was denied."""
    client = client_of(role)
    for name, route, method in entries:
        url = address(route, url_parts)
        response = send(client, method, url, TABLE[name].body)
        yield name, url, method, None if is_denied(response) else response.status_code
        if name in ("admin:logout", "audit:end_sessions"):
            client = client_of(role)
        cache.clear()  # it counts the requests of the API


def test_a_denied_request_does_not_reveal_whether_a_row_exists(url_parts):
    client = client_of(STAFF)
    existing = client.get(f"/api/exchanges/{url_parts['request_id']}/")
    absent = client.get("/api/exchanges/req_0/")
    assert (existing.status_code, existing.content) == (absent.status_code, absent.content)


@pytest.mark.parametrize(("route", "expected"), GATEWAY.items(), ids=lambda part: str(part)[:40])
def test_gateway_urls_need_a_key_and_the_right_method(gateway: Gateway, route, expected):
    path = re.sub(r"<path:\w+>", "some/model", route)
    with httpx.Client(base_url=gateway.url, trust_env=False) as stranger:
        for method in METHODS:
            response = stranger.request(method, f"/{path}")
            assert response.status_code == expected.get(method, 405), f"{method} {path}"
            assert "set-cookie" not in response.headers
