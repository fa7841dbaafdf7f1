"""Clients of the management API with the token of a staff user."""

import json
from typing import Any

from django.contrib.auth.models import Group, User
from django.test import Client

from proxy.models import ApiToken


def staff_user(*roles: str, username: str = "") -> User:
    user = User.objects.create_user(username or f"user with {roles}", is_staff=True)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def token_client(user: User, **options: Any) -> Client:
    _, plain = ApiToken.make(user)
    return Client(headers={"authorization": f"Bearer {plain}"}, **options)


def send_json(client: Client, method: str, url: str, body: Any = None) -> Any:
    return client.generic(method, url, json.dumps(body or {}), content_type="application/json")
