"""Whom the gateway calls."""

import os
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from formats import DIALECTS
from proxy.models.bounds import in_bounds
from proxy.models.history import recorded
from proxy.models.numbers import NumberField
from proxy.models.sealed import SealedHeaders, unreadable
from proxy.security.vault import SecretUnreadable, seal, unseal
from proxy.validators import (
    validate_address,
    validate_base_url,
    validate_headers,
    validate_object,
    validate_variable,
)

_SECONDS: list[Any] = [MinValueValidator(0.1), MaxValueValidator(3600)]


def dialect_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(DIALECTS)]


class Service(models.TextChoices):
    """Whose service it is: small differences of requests follow from it."""

    OPENROUTER = "openrouter", "OpenRouter"
    ANTHROPIC = "anthropic", "Anthropic"
    OTHER = "other", "another (vLLM, Moonshot, DeepSeek, …)"


class Upstream(models.Model):
    name = models.SlugField(unique=True)
    service = models.CharField(
        max_length=20,
        choices=Service,
        default=Service.OTHER,
        help_text="Decides how reasoning is asked for and replayed, and what the API insists on.",
    )
    dialect = models.CharField(
        max_length=20,
        choices=dialect_choices,
        default="openai",
        help_text="How it frames messages.",
    )
    base_url = models.CharField(
        "base URL",
        max_length=300,
        validators=[validate_base_url, validate_address],
        help_text="Up to and including the version: https://openrouter.ai/api/v1",
    )
    sealed_key = models.TextField(blank=True, editable=False)
    key_variable = models.CharField(
        "key from environment variable",
        max_length=100,
        blank=True,
        validators=[validate_variable],
        help_text="Name of the variable that holds the API key, instead of a stored one.",
    )
    headers = SealedHeaders(
        default=dict,
        blank=True,
        validators=[validate_headers],
        help_text='Sent with every request, e.g. {"HTTP-Referer": "https://example.org"}',
    )
    provider_preferences = models.JSONField(
        default=dict,
        blank=True,
        validators=[validate_object],
        help_text="OpenRouter's provider object: which providers may serve, and in which order.",
    )
    connect_timeout = NumberField(default=5, validators=_SECONDS, help_text="Seconds.")
    first_byte_timeout = NumberField(
        default=300, validators=_SECONDS, help_text="Seconds until the answer must have begun."
    )
    idle_timeout = NumberField(
        default=120, validators=_SECONDS, help_text="Seconds that a begun answer may be silent."
    )
    progress_timeout = NumberField(
        default=180,
        validators=_SECONDS,
        help_text="Seconds that a begun answer may consist of comments and pings alone.",
    )
    total_timeout = NumberField(
        default=3600,
        validators=[MinValueValidator(1), MaxValueValidator(24 * 3600)],
        help_text="Seconds that an answer may take in all.",
    )
    active = models.BooleanField(default=True)
    from_environment = models.BooleanField(
        default=False,
        editable=False,
        help_text="Set from the environment at every start, until an operator edits it.",
    )

    history = recorded("sealed_key")

    class Meta:
        ordering = ("name",)
        constraints = [
            models.CheckConstraint(
                condition=models.Q(sealed_key="") | models.Q(key_variable=""),
                name="upstream_has_one_key",
                violation_error_message="Give a key or the name of a variable, not both.",
            ),
            in_bounds("upstream", "connect_timeout", 0.1, 3600),
            in_bounds("upstream", "first_byte_timeout", 0.1, 3600),
            in_bounds("upstream", "idle_timeout", 0.1, 3600),
            in_bounds("upstream", "progress_timeout", 0.1, 3600),
            in_bounds("upstream", "total_timeout", 1, 24 * 3600),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.provider_preferences and self.service != Service.OPENROUTER:
            raise ValidationError(
                {"provider_preferences": "Only OpenRouter knows provider preferences."}
            )

    def store_key(self, key: str) -> None:
        """Seal a key for this upstream; the row must still be saved."""
        self.sealed_key, self.key_variable = (seal(key), "") if key else ("", self.key_variable)
        self._change_reason = "the key was changed"  # the record itself has nothing of it

    def read_key(self) -> str:
        """The key, empty if there is none; raises SecretUnreadable."""
        if self.key_variable:
            return os.environ.get(self.key_variable, "")
        return unseal(self.sealed_key) if self.sealed_key else ""

    def is_readable(self) -> bool:
        """Whether its secrets were sealed with the present secret."""
        try:
            self.read_key()
        except SecretUnreadable:
            return False
        return not unreadable(self.headers)

    def key_hint(self) -> str:
        """Where the key comes from, or its last characters: enough to tell it from another."""
        if self.key_variable:
            return f"${self.key_variable}"
        try:
            key = self.read_key()
        except SecretUnreadable:
            return "unreadable"
        return f"…{key[-4:]}" if len(key) > 12 else ("stored" if key else "none")
