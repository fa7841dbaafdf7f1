"""Revoking and rotating client keys."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from proxy.configuration.client_keys import revoke, rotate
from proxy.models import ClientKey, KeyState
from proxy.models.keys import digest_of, new_key

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def client_key(**fields):
    key = ClientKey(label="laptop", **fields)
    key.adopt(new_key())
    key.save()
    ClientKey.objects.filter(pk=key.pk).update(created_at=NOW - timedelta(days=10))
    key.refresh_from_db()
    return key


def test_a_key_is_active_until_it_expires_or_is_revoked():
    key = client_key(expires_at=NOW)
    assert key.state(NOW - timedelta(seconds=1)) is KeyState.ACTIVE
    assert key.state(NOW) is KeyState.EXPIRED
    revoke(key, NOW)
    revoke(key, NOW + timedelta(days=1))
    key.refresh_from_db()
    assert (key.state(NOW), key.revoked_at) == (KeyState.REVOKED, NOW)


def test_a_key_is_rotated_with_an_overlap():
    old = client_key(
        owner=User.objects.create(username="ada"),
        allowed_models=["qwen/*"],
        requests_per_minute=60,
        max_streams=3,
        capture_content=False,
        from_environment=True,
    )
    new, plain = rotate(old, timedelta(hours=24), NOW)
    new.refresh_from_db()
    old.refresh_from_db()
    assert (new.digest, new.replaces, old.replaced_by) == (digest_of(plain), old, new)
    assert (new.label, new.owner, new.allowed_models) == ("laptop", old.owner, ["qwen/*"])
    assert (new.requests_per_minute, new.max_streams, new.capture_content) == (60, 3, False)
    assert (new.expires_at, new.from_environment) == (None, False)
    assert old.expires_at == NOW + timedelta(hours=24)
    assert digest_of(plain) != old.digest


def test_a_new_key_has_the_lifetime_of_the_key_it_replaces():
    new, _ = rotate(client_key(expires_at=NOW + timedelta(days=20)), timedelta(0), NOW)
    assert new.expires_at == NOW + timedelta(days=30)
    far_future = datetime.max.replace(tzinfo=UTC)
    new, _ = rotate(client_key(expires_at=far_future), timedelta(0), NOW)
    assert new.expires_at == far_future


def test_rotation_does_not_extend_a_key_that_expires_sooner():
    old = client_key(expires_at=NOW + timedelta(hours=1))
    rotate(old, timedelta(hours=24), NOW)
    assert old.expires_at == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"revoked_at": NOW}, "is revoked"), ({"expires_at": NOW}, "is expired")],
)
def test_a_revoked_or_expired_key_cannot_be_rotated(fields, words):
    with pytest.raises(ValidationError, match=words):
        rotate(client_key(**fields), timedelta(0), NOW)
    assert ClientKey.objects.count() == 1


def test_a_key_can_be_rotated_only_once():
    old = client_key()
    rotate(old, timedelta(hours=1), NOW)
    with pytest.raises(ValidationError, match="already replaced by laptop"):
        rotate(old, timedelta(hours=1), NOW)
    assert ClientKey.objects.count() == 2
