"""Who may call the gateway."""

import hashlib
import secrets
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models, transaction

from proxy.models.gateway import ConfigurationVersion
from proxy.models.history import recorded
from proxy.validators import validate_patterns

PREFIX_CHARS = 16
MIN_KEY_CHARS = 8
_PASSED_ON = (
    "label",
    "owner",
    "allowed_models",
    "requests_per_minute",
    "max_streams",
    "capture_content",
)
"""What a key has of the one that it replaces."""


def digest_of(key: str) -> str:
    """A key has 256 bits of chance, so a plain hash is enough to store it."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def prefix_of(key: str) -> str:
    """Enough to know a key by, and never so much that a short one is given away."""
    return key[: min(PREFIX_CHARS, len(key) // 3)]


class KeyState(models.TextChoices):
    ACTIVE = "active", "active"
    EXPIRED = "expired", "expired"
    REVOKED = "revoked", "revoked"


class ClientKey(models.Model):
    plain_key = ""
    """The key itself, while a new one is being made; it is never stored."""

    label = models.CharField(max_length=100, help_text="What or whom it is for.")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="client_keys"
    )
    prefix = models.CharField(max_length=PREFIX_CHARS, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    allowed_models = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_patterns],
        help_text="Patterns of the model names that it may use; an empty list allows all.",
    )
    requests_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="More get 429 and are told when to try again. Counted by each process for "
        "itself, unless they share a Redis; empty: as the gateway settings say.",
    )
    max_streams = models.PositiveIntegerField(
        "requests at once",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Of those that are being answered; more get 429. Counted by each process for "
        "itself; empty: as the gateway settings say.",
    )
    capture_content = models.BooleanField(
        default=True, help_text="Whether transcripts of its exchanges may be kept."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="In UTC. From then on it is refused; empty: never."
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
        help_text="The key that this one was made to take the place of.",
    )

    history = recorded("digest", "last_used_at")

    class Meta:
        ordering = ("label", "pk")
        permissions = [("view_own_usage", "Can see the usage of their own keys")]

    def __str__(self) -> str:
        return f"{self.label} ({self.prefix}…)"

    def adopt(self, key: str) -> None:
        """Make `key` the secret of this row; only its hash is kept."""
        if len(key) < MIN_KEY_CHARS or not key.isascii() or any(c.isspace() for c in key):
            raise ValidationError(
                f"a client key needs at least {MIN_KEY_CHARS} ASCII characters and no space"
            )
        self.prefix, self.digest = prefix_of(key), digest_of(key)

    def state(self, now: datetime) -> KeyState:
        if self.revoked_at is not None:
            return KeyState.REVOKED
        is_over = self.expires_at is not None and self.expires_at <= now
        return KeyState.EXPIRED if is_over else KeyState.ACTIVE

    @transaction.atomic
    def revoke(self, now: datetime) -> None:
        """Refuse it from now on; the first time counts."""
        self._lock()
        if self.revoked_at is None:
            self.revoked_at = now
            self.save(update_fields=["revoked_at"])

    @transaction.atomic
    def rotate(self, overlap: timedelta, now: datetime) -> "tuple[ClientKey, str]":
        """A key to take the place of this one, saved; and the key itself, which is shown once.

        This one goes on for the overlap, if it would not have ended before. Of a key that was made
        for some time, the other is made for as long. Raises ValidationError.
        """
        self._lock()
        if (state := self.state(now)) is not KeyState.ACTIVE:
            raise ValidationError(f"{self} is {state}: make another key instead.")
        if (other := ClientKey.objects.filter(replaces=self).first()) is not None:
            raise ValidationError(f"{self} was already replaced by {other}: rotate that one.")
        key, plain = ClientKey(replaces=self), new_key()
        for name in _PASSED_ON:
            setattr(key, name, getattr(self, name))
        if self.expires_at is not None:
            lifetime = self.expires_at - self.created_at
            key.expires_at = now + min(lifetime, datetime.max.replace(tzinfo=UTC) - now)
        key.adopt(plain)
        key.full_clean()
        key.save()
        end = now + overlap
        if self.expires_at is None or end < self.expires_at:
            self.expires_at = end
            self.save(update_fields=["expires_at"])
        return key, plain

    def _lock(self) -> None:
        """Keep others from the configuration, and see what they have done to the row."""
        ConfigurationVersion.lock()
        self.refresh_from_db()


def new_key() -> str:
    return f"sk-athena-{secrets.token_urlsafe(32)}"
