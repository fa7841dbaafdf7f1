"""The gateway as a whole: one row of settings, and the version of everything that steers it."""

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connection, models
from django.db.models import F
from django.db.transaction import TransactionManagementError

from proxy.models.bounds import in_bounds
from proxy.models.history import recorded
from proxy.models.numbers import NumberField
from proxy.models.routes import ModelRoute

_SHARE: list[Any] = [MinValueValidator(0), MaxValueValidator(1)]
_DAYS: list[Any] = [MinValueValidator(1), MaxValueValidator(3650)]
_BYTES: list[Any] = [MinValueValidator(16 * 1024), MaxValueValidator(64 * 1024 * 1024)]
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
    max_line_bytes = models.PositiveIntegerField(
        "longest line of an upstream's stream",
        default=1024 * 1024,
        validators=_BYTES,
        help_text="Bytes. A longer one ends the answer in an error.",
    )
    max_event_bytes = models.PositiveIntegerField(
        "largest event of an upstream's stream",
        default=4 * 1024 * 1024,
        validators=_BYTES,
        help_text="Bytes. A larger one ends the answer in an error.",
    )
    max_answer_bytes = models.PositiveIntegerField(
        "largest answer that is held whole",
        default=64 * 1024 * 1024,
        validators=[MinValueValidator(64 * 1024), MaxValueValidator(1024 * 1024 * 1024)],
        help_text="Bytes. For clients that do not stream; a larger one is an error.",
    )
    max_headers = models.PositiveIntegerField(
        default=100,
        db_default=100,  # of these, so that a release without the column can write the row
        validators=[MinValueValidator(20), MaxValueValidator(1000)],
        help_text="Requests with more headers get 431.",
    )
    max_header_bytes = models.PositiveIntegerField(
        default=64 * 1024,
        db_default=64 * 1024,
        validators=[MinValueValidator(4096), MaxValueValidator(1024 * 1024)],
        help_text="Requests whose address and headers are longer get 431.",
    )
    max_json_depth = models.PositiveIntegerField(
        default=128,
        db_default=128,
        validators=[MinValueValidator(16), MaxValueValidator(900)],
        help_text="Requests that are nested deeper get 400.",
    )
    max_json_nodes = models.PositiveIntegerField(
        default=200_000,
        db_default=200_000,
        validators=[MinValueValidator(1000), MaxValueValidator(10_000_000)],
        help_text="Requests with more values in their JSON get 400.",
    )
    request_timeout = NumberField(
        default=30,
        db_default=30,
        validators=_SECONDS,
        help_text="Seconds in which the head of a request must come; and in which its body must "
        "begin, may pause, and come at 500 bytes a second. Others get 408.",
    )
    stall_timeout = NumberField(
        default=60,
        db_default=60,
        validators=_SECONDS,
        help_text="Seconds for which a client may take nothing of its answer, though there is "
        "some. Then both connections are closed.",
    )
    max_streams = models.PositiveIntegerField(
        "requests at once",
        default=500,
        db_default=500,
        validators=[MinValueValidator(1), MaxValueValidator(100_000)],
        help_text="Of those that one node is answering, shared out among its processes. More "
        "get 503, and are told when to try again.",
    )
    key_max_streams = models.PositiveIntegerField(
        "requests at once of a key",
        default=32,
        db_default=32,
        validators=[MinValueValidator(1), MaxValueValidator(100_000)],
        help_text="Of every key that has no limit of its own.",
    )
    key_requests_per_minute = models.PositiveIntegerField(
        "requests a minute of a key",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Of every key that has no limit of its own; empty: as many as come.",
    )
    open_after = NumberField(
        default=30,
        validators=_SECONDS,
        help_text="Seconds after which a stream is opened although the upstream is still silent.",
    )
    ping_after = NumberField(
        default=10, validators=_SECONDS, help_text="Seconds of silence after which a ping is sent."
    )
    drain_time = NumberField(
        default=30,
        validators=_SECONDS,
        help_text="Seconds that open streams may go on when the gateway is stopped.",
    )

    capture_content = models.BooleanField(
        default=True, help_text="Whether any transcript is kept. Exchanges are, in any case."
    )
    sample_calls = NumberField(
        default=0.01,
        validators=_SHARE,
        help_text="Share of successful exchanges with tool calls whose transcript is kept, 0–1.",
    )
    sample_others = NumberField(
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
        constraints = [
            models.CheckConstraint(condition=models.Q(pk=1), name="gateway_is_one_row"),
            in_bounds("gateway", "max_body_bytes", 1024, 256 * 1024 * 1024),
            in_bounds("gateway", "max_line_bytes", 16 * 1024, 64 * 1024 * 1024),
            in_bounds("gateway", "max_event_bytes", 16 * 1024, 64 * 1024 * 1024),
            in_bounds("gateway", "max_answer_bytes", 64 * 1024, 1024 * 1024 * 1024),
            in_bounds("gateway", "max_headers", 20, 1000),
            in_bounds("gateway", "max_header_bytes", 4096, 1024 * 1024),
            in_bounds("gateway", "max_json_depth", 16, 900),
            in_bounds("gateway", "max_json_nodes", 1000, 10_000_000),
            in_bounds("gateway", "request_timeout", 0.1, 600),
            in_bounds("gateway", "stall_timeout", 0.1, 600),
            in_bounds("gateway", "max_streams", 1, 100_000),
            in_bounds("gateway", "key_max_streams", 1, 100_000),
            in_bounds("gateway", "open_after", 0.1, 600),
            in_bounds("gateway", "ping_after", 0.1, 600),
            in_bounds("gateway", "drain_time", 0.1, 600),
            in_bounds("gateway", "sample_calls", 0, 1),
            in_bounds("gateway", "sample_others", 0, 1),
            in_bounds("gateway", "transcript_bytes", 4096, 16 * 1024 * 1024),
            in_bounds("gateway", "transcript_days", 1, 3650),
            in_bounds("gateway", "exchange_days", 1, 3650),
        ]

    def __str__(self) -> str:
        return "Gateway settings"


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
