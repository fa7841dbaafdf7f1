"""Revoking and rotating client keys."""

from datetime import UTC, datetime, timedelta

from django.core.exceptions import ValidationError

from proxy.configuration import editing
from proxy.models import ClientKey, KeyState
from proxy.models.keys import new_key

_INHERITED_FIELDS = (
    "label",
    "owner",
    "allowed_models",
    "requests_per_minute",
    "max_streams",
    "capture_content",
)
"""Fields that a new key takes from the key that it replaces."""


def revoke(key: ClientKey, now: datetime, *, reason: str = "") -> None:
    """Reject the key from now on. Revoking again keeps the first time."""
    with editing.editing():
        key.refresh_from_db()
        if key.revoked_at is None:
            key.revoked_at = now
            editing.store(key, fields=["revoked_at"], reason=reason)


def rotate(key: ClientKey, overlap: timedelta, now: datetime) -> tuple[ClientKey, str]:
    """Make a key that replaces this one; returns its row and the key itself, to be shown once.

    The old key stays valid for the overlap, unless it expires sooner. If the old key was valid for
    a limited time, the new one is valid for as long. Raises ValidationError.
    """
    with editing.editing():
        key.refresh_from_db()
        if (state := key.state(now)) is not KeyState.ACTIVE:
            raise ValidationError(f"{key} is {state}. Create a new key instead.")
        if (other := ClientKey.objects.filter(replaces=key).first()) is not None:
            raise ValidationError(f"{key} was already replaced by {other}. Rotate that one.")
        successor, plain = ClientKey(replaces=key), new_key()
        for name in _INHERITED_FIELDS:
            setattr(successor, name, getattr(key, name))
        if key.expires_at is not None:
            lifetime = key.expires_at - key.created_at
            successor.expires_at = now + min(lifetime, datetime.max.replace(tzinfo=UTC) - now)
        successor.adopt(plain)
        editing.save(successor)
        end = now + overlap
        if key.expires_at is None or end < key.expires_at:
            key.expires_at = end
            editing.store(key, fields=["expires_at"])
        return successor, plain
