"""The gateway as a whole: one row of settings, and the version of everything that steers it."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connection, models
from django.db.models import F
from django.db.transaction import TransactionManagementError

from proxy.models.history import recorded
from proxy.models.routes import ModelRoute

_SHARE: list[Any] = [MinValueValidator(0), MaxValueValidator(1)]
_DAYS: list[Any] = [MinValueValidator(1), MaxValueValidator(3650)]
_SECONDS: list[Any] = [MinValueValidator(0.1), MaxValueValidator(600)]


class GatewaySettings(models.Model):
    default_route = models.ForeignKey(
        ModelRoute,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="For names that no route matches. One with a slash keeps its name.",
    )
    max_body_bytes = models.PositiveIntegerField(
        default=32 * 1024 * 1024,
        validators=[MinValueValidator(1024), MaxValueValidator(256 * 1024 * 1024)],
        help_text="Larger requests get 413.",
    )
    open_after = models.FloatField(
        default=30,
        validators=_SECONDS,
        help_text="Seconds after which a stream is opened although the upstream is still silent.",
    )
    ping_after = models.FloatField(
        default=10, validators=_SECONDS, help_text="Seconds of silence after which a ping is sent."
    )
    drain_time = models.FloatField(
        default=30,
        validators=_SECONDS,
        help_text="Seconds that open streams may go on when the gateway is stopped.",
    )

    capture_content = models.BooleanField(
        default=True, help_text="Whether any transcript is kept. Exchanges are, in any case."
    )
    sample_calls = models.FloatField(
        default=0.01,
        validators=_SHARE,
        help_text="Share of successful exchanges with tool calls whose transcript is kept, 0–1.",
    )
    sample_others = models.FloatField(
        default=0,
        validators=_SHARE,
        help_text="Share of the other successful exchanges whose transcript is kept, 0–1.",
    )
    failures_per_hour = models.PositiveIntegerField(
        default=20,
        help_text="Transcripts of one kind of failure, or of leaked markup, that an hour may add.",
    )
    transcript_bytes = models.PositiveIntegerField(
        default=256 * 1024,
        validators=[MinValueValidator(4096), MaxValueValidator(16 * 1024 * 1024)],
        help_text="Of each part of a transcript; of a longer one, head and tail are kept.",
    )
    transcript_days = models.PositiveIntegerField(
        default=7, validators=_DAYS, help_text="Then transcripts are deleted."
    )
    exchange_days = models.PositiveIntegerField(
        default=90, validators=_DAYS, help_text="Then exchanges are deleted."
    )

    history = recorded()

    class Meta:
        verbose_name_plural = "gateway settings"
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="gateway_is_one_row")]

    def __str__(self) -> str:
        return "Gateway settings"


def check_default(route: ModelRoute) -> None:
    """Raise ValidationError if the default route is switched off: all other names depend on it.

    Not in the route's own `clean`: an import changes both, one after the other.
    """
    is_default = GatewaySettings.objects.filter(default_route=route.pk).exists()
    if route.pk and is_default and not route.active:
        raise ValidationError(
            {"active": "It is the default route: choose another in the gateway settings first."}
        )


class ConfigurationVersion(models.Model):
    """Counts every change of the configuration; processes compare it with what they hold."""

    number = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="version_is_one_row")]

    def __str__(self) -> str:
        return str(self.number)

    @classmethod
    def advance(cls) -> int:
        """Make what was just saved a new version, in the same transaction; its number."""
        if not cls.objects.filter(pk=1).update(number=F("number") + 1):
            cls.objects.create(pk=1)
        return cls.objects.get(pk=1).number

    @classmethod
    def lock(cls) -> None:
        """Keep others from changing the configuration until the transaction ends."""
        if not connection.in_atomic_block:  # SQLite would not mind, and PostgreSQL fail
            raise TransactionManagementError("the configuration is locked in a transaction only")
        cls.objects.select_for_update().filter(pk=1).first()
