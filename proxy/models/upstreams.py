"""Upstreams: the servers that the gateway calls."""

from django.core.exceptions import ValidationError
from django.db import models

from formats import DIALECTS
from proxy.models.bounded_numbers import Bounds, NumberField
from proxy.models.encrypted_headers import EncryptedHeadersField, unreadable_headers
from proxy.models.history import recorded
from proxy.security.key_variables import read_key_variable
from proxy.security.vault import SecretUnreadable, seal, unseal
from proxy.validators import (
    validate_address,
    validate_base_url,
    validate_headers,
    validate_object,
    validate_variable,
)

_BOUNDS = Bounds(
    "upstream",
    connect_timeout=(0.1, 3600),
    first_byte_timeout=(0.1, 3600),
    idle_timeout=(0.1, 3600),
    progress_timeout=(0.1, 3600),
    total_timeout=(1, 24 * 3600),
)


def dialect_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(DIALECTS)]


class Service(models.TextChoices):
    """The service of an upstream. Some details of requests depend on it."""

    OPENROUTER = "openrouter", "OpenRouter"
    ANTHROPIC = "anthropic", "Anthropic"
    OTHER = "other", "other (vLLM, Moonshot, DeepSeek, …)"


class Upstream(models.Model):
    name = models.SlugField(unique=True)
    service = models.CharField(
        max_length=20,
        choices=Service,
        default=Service.OTHER,
        help_text="Decides how reasoning is requested and sent back, and which API rules apply.",
    )
    dialect = models.CharField(
        max_length=20,
        choices=dialect_choices,
        default="openai",
        help_text="The API format that the upstream speaks.",
    )
    base_url = models.CharField(
        "base URL",
        max_length=300,
        validators=[validate_base_url, validate_address],
        help_text="Including the version, for example https://openrouter.ai/api/v1",
    )
    sealed_key = models.TextField(blank=True, editable=False)
    key_variable = models.CharField(
        "key from environment variable",
        max_length=100,
        blank=True,
        validators=[validate_variable],
        help_text="Name of the variable that holds the API key, instead of a stored key.",
    )
    headers = EncryptedHeadersField(
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
    connect_timeout = NumberField(
        default=5,
        validators=_BOUNDS.validators("connect_timeout"),
        help_text="Seconds to establish a connection.",
    )
    first_byte_timeout = NumberField(
        default=300,
        validators=_BOUNDS.validators("first_byte_timeout"),
        help_text="Seconds until the first byte of an answer.",
    )
    idle_timeout = NumberField(
        default=120,
        validators=_BOUNDS.validators("idle_timeout"),
        help_text="Seconds without any data within an answer.",
    )
    progress_timeout = NumberField(
        default=180,
        validators=_BOUNDS.validators("progress_timeout"),
        help_text="Seconds with only comments and pings within an answer.",
    )
    total_timeout = NumberField(
        default=3600,
        validators=_BOUNDS.validators("total_timeout"),
        help_text="Seconds for a whole answer.",
    )
    reuse_connections = models.BooleanField(
        default=True,
        db_default=True,
        help_text="Switch off for an upstream that sends data after the end of its answers. Each "
        "request then takes a new connection.",
    )
    active = models.BooleanField(default=True)
    from_environment = models.BooleanField(
        default=False,
        editable=False,
        help_text="Set from the environment at every start, until an operator edits the row.",
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
            *_BOUNDS.constraints(),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.provider_preferences and self.service != Service.OPENROUTER:
            raise ValidationError(
                {"provider_preferences": "Only OpenRouter supports provider preferences."}
            )

    def store_key(self, key: str) -> None:
        """Encrypt an API key into this row; the caller saves it. An empty key removes it."""
        self.sealed_key, self.key_variable = (seal(key), "") if key else ("", self.key_variable)
        self._change_reason = "the key was changed"  # the history has no field for it

    def read_key(self) -> str:
        """The API key; empty if there is none. Raises SecretUnreadable."""
        if self.key_variable:
            return read_key_variable(self.key_variable)
        return unseal(self.sealed_key) if self.sealed_key else ""

    def is_readable(self) -> bool:
        """Return whether all secrets can be decrypted with the current ATHENA_SECRET_KEY."""
        try:
            self.read_key()
        except SecretUnreadable:
            return False
        return not unreadable_headers(self.headers)

    def key_hint(self) -> str:
        """The source of the key or its last characters: enough to tell keys apart."""
        if self.key_variable:
            return f"${self.key_variable}"
        try:
            key = self.read_key()
        except SecretUnreadable:
            return "unreadable"
        return f"…{key[-4:]}" if len(key) > 12 else ("stored" if key else "none")
