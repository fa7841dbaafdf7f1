"""API tokens: credentials of programs that use the management API for a staff user."""

import secrets
from datetime import datetime

from django.conf import settings
from django.db import models

from proxy.models.keys import PREFIX_CHARS, digest_of, prefix_of

# `proxy.security.redaction` recognises this prefix, should a token appear in a conversation.
_PREFIX = "sk-api-"


class ApiToken(models.Model):
    """A token with the permissions of its owner. Only its hash is stored."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens")
    label = models.CharField(max_length=100, blank=True)
    prefix = models.CharField(max_length=PREFIX_CHARS)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.owner}"

    @classmethod
    def make(
        cls, owner: models.Model, *, label: str = "", expires_at: datetime | None = None
    ) -> tuple["ApiToken", str]:
        """Create and save a token; returns the row and the token itself, to be shown once."""
        plain = f"{_PREFIX}{secrets.token_urlsafe(32)}"
        row = cls.objects.create(
            owner_id=owner.pk,
            label=label,
            prefix=prefix_of(plain),
            digest=digest_of(plain),
            expires_at=expires_at,
        )
        return row, plain

    @classmethod
    def find(cls, plain: str, now: datetime) -> "ApiToken | None":
        """The row of a token; None if it is unknown or has expired."""
        row = cls.objects.select_related("owner").filter(digest=digest_of(plain)).first()
        has_expired = row is not None and row.expires_at is not None and row.expires_at <= now
        return None if has_expired else row
