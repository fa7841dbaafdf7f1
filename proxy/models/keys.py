"""Client keys: the credentials with which clients call the gateway."""

import hashlib
import secrets
from datetime import datetime

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models

from proxy.models.history import recorded
from proxy.validators import validate_patterns

PREFIX_CHARS = 16
MIN_KEY_CHARS = 8


def digest_of(key: str) -> str:
    """Return the hash to store. A key has 256 random bits, so it needs no salt."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def prefix_of(key: str) -> str:
    """Return enough of a key to recognise it, but never more than a third of a short one."""
    return key[: min(PREFIX_CHARS, len(key) // 3)]


class KeyState(models.TextChoices):
    ACTIVE = "active", "active"
    EXPIRED = "expired", "expired"
    REVOKED = "revoked", "revoked"


class ClientKey(models.Model):
    plain_key = ""
    """The key itself, while a new one is being created. It is never stored."""

    label = models.CharField(max_length=100, help_text="What or whom the key is for.")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="client_keys"
    )
    prefix = models.CharField(max_length=PREFIX_CHARS, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    allowed_models = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_patterns],
        help_text="Patterns of the model names that the key may use; an empty list allows all.",
    )
    requests_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Further requests get 429 with a Retry-After header. Each process counts its "
        "own requests, unless the processes share a Redis. Empty: the gateway's setting.",
    )
    max_streams = models.PositiveIntegerField(
        "concurrent requests",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Further requests get 429. Each process counts its own requests. Empty: the "
        "gateway's setting.",
    )
    capture_content = models.BooleanField(
        default=True, help_text="Whether transcripts of its exchanges may be stored."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="In UTC. Empty: the key never expires."
    )
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    from_environment = models.BooleanField(default=False, editable=False)
    replaces = models.OneToOneField(
        "self",
        models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="replaced_by",
        help_text="The key that this one replaces.",
    )

    history = recorded("digest", "last_used_at")

    class Meta:
        ordering = ("label", "pk")
        permissions = [("view_own_usage", "Can see the usage of their own keys")]

    def __str__(self) -> str:
        return f"{self.label} ({self.prefix}…)"

    def adopt(self, key: str) -> None:
        """Make `key` the secret of this row. Only its hash and prefix are stored."""
        if len(key) < MIN_KEY_CHARS or not key.isascii() or any(c.isspace() for c in key):
            raise ValidationError(
                f"A client key needs at least {MIN_KEY_CHARS} ASCII characters and no spaces."
            )
        self.prefix, self.digest = prefix_of(key), digest_of(key)

    def state(self, now: datetime) -> KeyState:
        if self.revoked_at is not None:
            return KeyState.REVOKED
        has_expired = self.expires_at is not None and self.expires_at <= now
        return KeyState.EXPIRED if has_expired else KeyState.ACTIVE


def new_key() -> str:
    return f"sk-athena-{secrets.token_urlsafe(32)}"
