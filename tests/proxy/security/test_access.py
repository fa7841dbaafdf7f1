"""Every URL × role × method: who may is in a table here, and what is not in it is nobody's.

URLs come from the URLconf: one that the table does not know fails the test. To be refused is 401,
403, 404, 405, or the way to the login page. What is refused changes nothing.
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
    places,
    send,
)
from tests.support.gateway import Gateway

__all__ = ["places"]  # a fixture


def test_every_url_is_in_the_table_and_nothing_else_is():
    assert {name for name, _ in URLS} == TABLE.keys() | GATEWAY.keys()


def is_refused(response):
    if response.status_code in (302, 301):
        return response["location"].startswith("/admin/login/")
    return response.status_code in (401, 403, 404, 405)


def counts():
    """How many rows there are, but for what every request may add."""
    models = [m for m in apps.get_models() if m._meta.app_label in ("auth", "proxy", "admin")]
    return {model.__name__: model._default_manager.count() for model in models}


@pytest.mark.parametrize("role", ROLES)
def test_each_url_and_method_is_for_those_in_the_table(places, role, settings):
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    wanted = [(name, route, method) for name, route in PAGES for method in METHODS]
    refused = [entry for entry in wanted if not TABLE[entry[0]].allows(role, entry[2])]
    client_of(role)  # makes the person
    before, wrong = counts(), []
    for name, url, method, status in walk(role, refused, places):
        if status is not None:
            wrong.append(f"{method} {url} ({name}) is for {role}: {status}")
    assert counts() == before, "what was refused has changed something"
    # What the admin takes for GET need not be rendered three times more.
    shown = ("GET", "POST")
    allowed = [
        (name, route, method)
        for name, route, method in wanted
        if TABLE[name].allows(role, method) and (method in shown or not name.startswith("admin"))
    ]
    for name, url, method, status in walk(role, allowed, places):
        if status is None:
            wrong.append(f"{method} {url} ({name}) is not for {role}")
        elif status >= 500:
            wrong.append(f"{method} {url} ({name}) fails: {status}")
    assert not wrong, "\n".join(wrong)


def walk(role, entries, places):
    """Ask for each; the status, or None if it was refused."""
    client = client_of(role)
    for name, route, method in entries:
        url = address(route, places)
        response = send(client, method, url, TABLE[name].body)
        yield name, url, method, None if is_refused(response) else response.status_code
        if name in ("admin:logout", "audit:end_sessions"):
            client = client_of(role)
        cache.clear()  # it counts the API's requests


def test_what_is_refused_says_nothing_of_what_there_is(places):
    client = client_of(STAFF)
    there = client.get(f"/api/exchanges/{places['request_id']}/")
    absent = client.get("/api/exchanges/req_0/")
    assert (there.status_code, there.content) == (absent.status_code, absent.content)


@pytest.mark.parametrize(("route", "expected"), GATEWAY.items(), ids=lambda part: str(part)[:40])
def test_the_gateways_own_urls_want_a_key_and_one_method(gateway: Gateway, route, expected):
    path = re.sub(r"<path:\w+>", "some/model", route)
    with httpx.Client(base_url=gateway.url, trust_env=False) as stranger:
        for method in METHODS:
            response = stranger.request(method, f"/{path}")
            assert response.status_code == expected.get(method, 405), f"{method} {path}"
            assert "set-cookie" not in response.headers
