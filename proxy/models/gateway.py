"""The gateway's settings, a single row, and the version of the whole configuration."""

from django.core.validators import MinValueValidator
from django.db import connection, models
from django.db.models import F
from django.db.transaction import TransactionManagementError

from formats import AUTO, STANDARD
from proxy.models.bounded_numbers import KIB, MIB, Bounds, NumberField
from proxy.models.history import recorded
from proxy.models.routes import ModelRoute

_BOUNDS = Bounds(
    "gateway",
    max_body_bytes=(KIB, 256 * MIB),
    max_line_bytes=(16 * KIB, 64 * MIB),
    max_event_bytes=(16 * KIB, 64 * MIB),
    max_answer_bytes=(64 * KIB, 1024 * MIB),
    max_headers=(20, 1000),
    max_header_bytes=(4 * KIB, MIB),
    max_json_depth=(16, 900),
    max_json_nodes=(1000, 10_000_000),
    request_timeout=(0.1, 600),
    stall_timeout=(0.1, 600),
    max_streams=(1, 100_000),
    key_max_streams=(1, 100_000),
    open_after=(0.1, 600),
    ping_after=(0.1, 600),
    drain_time=(0.1, 600),
    sample_calls=(0, 1),
    sample_others=(0, 1),
    transcript_bytes=(4 * KIB, 16 * MIB),
    transcript_days=(1, 3650),
    exchange_days=(1, 3650),
)

UNKNOWN_FORMAT = [
    (AUTO, "auto: calls of declared tools, in the markup of any family"),
    (STANDARD, "standard: structured calls only"),
]


class GatewaySettings(models.Model):
    default_route = models.ForeignKey(
        ModelRoute,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="For model names that match no route. A name with a slash is sent unchanged.",
    )
    unknown_format = models.CharField(
        "models of unknown format",
        max_length=20,
        choices=UNKNOWN_FORMAT,
        default=AUTO,
        db_default=AUTO,  # lets the previous release, which lacks this column, write the row
        help_text="How to read models whose name says nothing about their format, and for which "
        "there is no override. Names of Claude, GPT, Gemini and Grok are always read as standard.",
    )
    max_body_bytes = models.PositiveIntegerField(
        default=32 * 1024 * 1024,
        validators=_BOUNDS.validators("max_body_bytes"),
        help_text="Larger requests get 413.",
    )
    max_line_bytes = models.PositiveIntegerField(
        "longest line of an upstream's stream",
        default=1024 * 1024,
        validators=_BOUNDS.validators("max_line_bytes"),
        help_text="Bytes. A longer line ends the answer with an error.",
    )
    max_event_bytes = models.PositiveIntegerField(
        "largest event of an upstream's stream",
        default=4 * 1024 * 1024,
        validators=_BOUNDS.validators("max_event_bytes"),
        help_text="Bytes. A larger event ends the answer with an error.",
    )
    max_answer_bytes = models.PositiveIntegerField(
        "largest answer without streaming",
        default=64 * 1024 * 1024,
        validators=_BOUNDS.validators("max_answer_bytes"),
        help_text="Bytes. For clients that do not stream; a larger answer is an error.",
    )
    max_headers = models.PositiveIntegerField(
        default=100,
        db_default=100,
        validators=_BOUNDS.validators("max_headers"),
        help_text="Requests with more headers get 431.",
    )
    max_header_bytes = models.PositiveIntegerField(
        default=64 * 1024,
        db_default=64 * 1024,
        validators=_BOUNDS.validators("max_header_bytes"),
        help_text="Requests whose URL and headers are longer get 431.",
    )
    max_json_depth = models.PositiveIntegerField(
        default=128,
        db_default=128,
        validators=_BOUNDS.validators("max_json_depth"),
        help_text="Requests with deeper nested JSON get 400.",
    )
    max_json_nodes = models.PositiveIntegerField(
        default=200_000,
        db_default=200_000,
        validators=_BOUNDS.validators("max_json_nodes"),
        help_text="Requests with more JSON values get 400.",
    )
    request_timeout = NumberField(
        default=30,
        db_default=30,
        validators=_BOUNDS.validators("request_timeout"),
        help_text="Seconds for the headers of a request, and for each pause of its body, which "
        "must also arrive at 500 bytes per second. Slower requests get 408.",
    )
    stall_timeout = NumberField(
        default=60,
        db_default=60,
        validators=_BOUNDS.validators("stall_timeout"),
        help_text="Seconds for which a client may read nothing of a waiting answer. Then both "
        "connections are closed.",
    )
    max_streams = models.PositiveIntegerField(
        "concurrent requests",
        default=500,
        db_default=500,
        validators=_BOUNDS.validators("max_streams"),
        help_text="The maximum for one node, divided among its processes. Further requests get "
        "503 with a Retry-After header.",
    )
    key_max_streams = models.PositiveIntegerField(
        "concurrent requests per key",
        null=True,
        blank=True,
        validators=_BOUNDS.validators("key_max_streams"),
        help_text="For every key without a limit of its own. Empty: unlimited; the node's limit "
        "applies in any case.",
    )
    key_requests_per_minute = models.PositiveIntegerField(
        "requests per minute per key",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="For every key without a limit of its own. Empty: unlimited.",
    )
    open_after = NumberField(
        default=30,
        validators=_BOUNDS.validators("open_after"),
        help_text="Seconds after which a stream is opened even if the upstream has sent nothing.",
    )
    ping_after = NumberField(
        default=10,
        validators=_BOUNDS.validators("ping_after"),
        help_text="Seconds of silence after which a ping is sent to the client.",
    )
    drain_time = NumberField(
        default=30,
        validators=_BOUNDS.validators("drain_time"),
        help_text="Seconds for which open streams may continue when the gateway stops.",
    )

    capture_content = models.BooleanField(
        default=True, help_text="Whether transcripts are stored. Exchanges are stored in any case."
    )
    sample_calls = NumberField(
        default=0.01,
        validators=_BOUNDS.validators("sample_calls"),
        help_text="Share of successful exchanges with tool calls whose transcript is stored, 0–1.",
    )
    sample_others = NumberField(
        default=0,
        validators=_BOUNDS.validators("sample_others"),
        help_text="Share of other successful exchanges whose transcript is stored, 0–1.",
    )
    failures_per_hour = models.PositiveIntegerField(
        default=20,
        help_text="Transcripts stored per hour for each kind of failure or of leaked markup.",
    )
    transcript_bytes = models.PositiveIntegerField(
        default=256 * 1024,
        validators=_BOUNDS.validators("transcript_bytes"),
        help_text="For each part of a transcript. Only the start and the end of longer parts are "
        "stored.",
    )
    transcript_days = models.PositiveIntegerField(
        default=7,
        validators=_BOUNDS.validators("transcript_days"),
        help_text="Older transcripts are deleted.",
    )
    exchange_days = models.PositiveIntegerField(
        default=90,
        validators=_BOUNDS.validators("exchange_days"),
        help_text="Older exchanges are deleted.",
    )

    history = recorded()

    class Meta:
        verbose_name_plural = "gateway settings"
        constraints = [
            models.CheckConstraint(condition=models.Q(pk=1), name="gateway_is_one_row"),
            *_BOUNDS.constraints(),
        ]

    def __str__(self) -> str:
        return "Gateway settings"


class ConfigurationVersion(models.Model):
    """Counts the changes of the configuration; processes reload when it differs from theirs."""

    number = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="version_is_one_row")]

    def __str__(self) -> str:
        return str(self.number)

    @classmethod
    def advance(cls) -> int:
        """Make a new version in the transaction of the change; returns its number."""
        if not cls.objects.filter(pk=1).update(number=F("number") + 1):
            cls.objects.create(pk=1)
        return cls.objects.get(pk=1).number

    @classmethod
    def lock(cls) -> None:
        """Lock the configuration until the transaction ends.

        Only `proxy.configuration.editing` calls this.
        """
        if not connection.in_atomic_block:  # PostgreSQL would fail; SQLite would not lock
            raise TransactionManagementError("lock the configuration inside a transaction")
        cls.objects.select_for_update().filter(pk=1).first()
