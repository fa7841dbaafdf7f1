"""The API of client keys: create, change, rotate and revoke."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from proxy.models import ClientKey
from proxy.models.keys import digest_of, prefix_of
from tests.support.api_clients import send_json

pytestmark = pytest.mark.usefixtures("configured")


def make_key(operator, **fields):
    response = send_json(operator, "POST", "/api/keys/", {"label": "ada's laptop", **fields})
    assert response.status_code == 201, response.content
    return response.json()


def test_a_new_key_is_returned_once(operator):
    User.objects.create(username="ada")
    created = make_key(operator, owner="ada", allowed_models=["qwen/*"], requests_per_minute=60)
    plain, row = created.pop("key"), ClientKey.objects.get(pk=created["id"])
    assert (row.digest, created["prefix"], created["state"]) == (
        digest_of(plain),
        prefix_of(plain),
        "active",
    )
    assert (created["owner"], created["allowed_models"], created["requests_per_minute"]) == (
        "ada",
        ["qwen/*"],
        60,
    )
    url = f"/api/keys/{created['id']}/"
    assert operator.get(url).json() == created
    for path in (url, "/api/keys/?owner=ada", f"{url}history/"):
        text = operator.get(path).content.decode()
        assert "qwen/*" in text
        assert plain not in text
        assert row.digest not in text


def test_only_the_settings_of_a_key_can_be_changed(operator):
    created = make_key(operator)
    url = f"/api/keys/{created['id']}/"
    body = send_json(
        operator, "PATCH", url, {"max_streams": 3, "expires_at": "2030-01-01T00:00Z"}
    ).json()
    assert (body["max_streams"], body["expires_at"]) == (3, "2030-01-01T00:00:00Z")
    for field in ("digest", "prefix", "revoked_at", "replaces", "key", "last_used_at"):
        assert send_json(operator, "PATCH", url, {field: None}).status_code == 400, field
    assert operator.delete(url).status_code == 405


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"label": ""}, "label"),
        ({"owner": "nobody"}, "nobody"),
        ({"allowed_models": ["a b"]}, "a b"),
        ({"allowed_models": "qwen/*"}, "allowed_models"),
        ({"requests_per_minute": 0}, "0"),
        ({"expires_at": "tomorrow"}, "tomorrow"),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, "expires_at"),
    ],
)
def test_invalid_values_of_a_key_are_rejected_and_named(operator, body, word):
    count = ClientKey.objects.count()
    response = send_json(operator, "POST", "/api/keys/", {"label": "x", **body})
    assert (response.status_code, ClientKey.objects.count()) == (400, count)
    assert word in response.json()["detail"]


def test_a_change_keeps_a_concurrent_last_use_of_a_key(operator, monkeypatch):
    created = make_key(operator)
    clean = ClientKey.full_clean

    def used(row):
        ClientKey.objects.filter(pk=row.pk).update(last_used_at=timezone.now())
        clean(row)

    monkeypatch.setattr(ClientKey, "full_clean", used)
    body = send_json(operator, "PATCH", f"/api/keys/{created['id']}/", {"label": "other"}).json()
    assert body["last_used_at"] is not None


def test_a_revocation_is_final(operator):
    created = make_key(operator)
    url = f"/api/keys/{created['id']}/revoke/"
    assert operator.post(url, headers={"if-match": '"0"'}).status_code == 412
    first = operator.post(url).json()
    again = operator.post(url).json()
    assert (first["state"], again) == ("revoked", first)


def test_a_key_is_rotated(operator):
    created = make_key(operator, max_streams=2, allowed_models=["qwen/*"])
    url = f"/api/keys/{created['id']}/"
    response = send_json(operator, "POST", f"{url}rotate/", {"overlap_hours": 2})
    other, old = response.json(), operator.get(url).json()
    assert response.status_code == 201
    assert (other["replaces"], old["replaced_by"]) == (created["id"], other["id"])
    assert (other["label"], other["max_streams"]) == ("ada's laptop", 2)
    assert ClientKey.objects.get(pk=other["id"]).digest == digest_of(other["key"])
    left = ClientKey.objects.get(pk=created["id"]).expires_at - timezone.now()
    assert timedelta(hours=1, minutes=59) < left <= timedelta(hours=2)
    again = send_json(operator, "POST", f"{url}rotate/", {})
    assert (again.status_code, "already replaced" in again.json()["detail"]) == (409, True)
    chain = send_json(operator, "POST", f"/api/keys/{other['id']}/rotate/", {"overlap_hours": 0})
    assert chain.status_code == 201
    assert operator.get(f"/api/keys/{other['id']}/").json()["state"] == "expired"


@pytest.mark.parametrize("hours", [-1, 721, "many", None, 1.5])
def test_the_overlap_of_a_rotation_has_bounds(operator, hours):
    created = make_key(operator)
    response = send_json(
        operator, "POST", f"/api/keys/{created['id']}/rotate/", {"overlap_hours": hours}
    )
    assert (response.status_code, ClientKey.objects.filter(replaces=created["id"]).count()) == (
        400,
        0,
    )


def test_a_revoked_key_is_not_rotated(operator):
    created = make_key(operator)
    operator.post(f"/api/keys/{created['id']}/revoke/")
    response = send_json(operator, "POST", f"/api/keys/{created['id']}/rotate/")
    assert (response.status_code, "is revoked" in response.json()["detail"]) == (409, True)
