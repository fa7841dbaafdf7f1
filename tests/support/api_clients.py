"""Clients of the management API, in-process."""

import json

from django.contrib.auth.models import Group, User
from django.test import Client

from proxy.models import ApiToken


def person(*roles, username=""):
    user = User.objects.create_user(username or f"one of {roles}", is_staff=True)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def client_of(user, **options):
    _, plain = ApiToken.make(user)
    return Client(headers={"authorization": f"Bearer {plain}"}, **options)


def send(client, method, url, body=None):
    return client.generic(method, url, json.dumps(body or {}), content_type="application/json")
