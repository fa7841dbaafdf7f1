"""Helpers for tests that open the staff pages with Django's test client."""

from typing import Any

from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client

from proxy.models import ConfigurationVersion
from proxy.roles import OPERATORS

HOSTILE = (
    "<script>window.__xss=1</script><img src=x onerror=window.__xss=1>"
    "\u2028\u202eevil\u200b\x1b[31m\x00 {{ 7|add:1 }} </pre></textarea>"
)
OVERRIDE_FORM = {
    "pattern": "house/*",
    "format": "kimi",
    "priority": "100",
    "active": "on",
    "note": "",
}
UPSTREAM_FORM = {
    "name": "mine",
    "service": "openrouter",
    "dialect": "openai",
    "base_url": "https://openrouter.ai/api/v1",
    "headers": "{}",
    "provider_preferences": "{}",
    "connect_timeout": "5",
    "first_byte_timeout": "300",
    "idle_timeout": "120",
    "progress_timeout": "180",
    "total_timeout": "3600",
    "reuse_connections": "on",
    "active": "on",
    "key_variable": "",
}


def log_in(client: Client, *roles: str) -> User:
    """Log a new staff user with these roles in."""
    user = User.objects.create(username=f"user with {', '.join(roles)}", is_staff=True)
    user.groups.set(Group.objects.filter(name__in=roles))
    client.force_login(user)
    return user


def operator_client(name: str) -> Client:
    user = User.objects.create(username=name, is_staff=True)
    user.groups.set(Group.objects.filter(name=OPERATORS))
    client = Client()
    client.force_login(user)
    return client


def get(client: Client, url: str, status: int = 200) -> Any:
    response = client.get(url)
    assert response.status_code == status, (url, response.status_code)
    return response


def text_of(response: HttpResponse) -> str:
    assert response.status_code == 200
    return response.content.decode()


def seen_version(page: str) -> str:
    """Return the hidden field with which a form detects concurrent changes."""
    return page.split('name="seen" value="')[1].split('"')[0]


def configuration_version() -> int:
    return ConfigurationVersion.objects.get().number
