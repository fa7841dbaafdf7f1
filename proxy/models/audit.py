"""The audit log: exchanges, and groups of failures of one kind."""

from django.conf import settings
from django.db import models
from django.urls import reverse

from proxy.models.keys import ClientKey


class Outcome(models.TextChoices):
    OK = "ok", "ok"
    CLIENT_ERROR = "client_error", "client error"
    UPSTREAM_ERROR = "upstream_error", "upstream error"
    TRANSFORM_FAILED = "transform_failed", "translation failed"
    CLIENT_DISCONNECT = "client_disconnect", "client disconnected"
    TIMEOUT = "timeout", "timeout"
    DRAINED = "drained", "stopped by a restart"
    GATEWAY_ERROR = "gateway_error", "gateway error"
    CRASHED = "crashed", "process crashed"


FAILURES = (
    Outcome.UPSTREAM_ERROR,
    Outcome.TRANSFORM_FAILED,
    Outcome.TIMEOUT,
    Outcome.GATEWAY_ERROR,
    Outcome.CRASHED,
)
"""Outcomes that need attention. The others are caused by the client, or planned."""


class Phase(models.TextChoices):
    """The step in which an exchange failed."""

    REQUEST = "request", "reading the request"
    CONNECT = "connect", "connecting to the upstream"
    ANSWER = "answer", "waiting for the answer"
    BODY = "body", "reading the answer"
    TRANSLATION = "translation", "decoding the answer"


class GroupState(models.TextChoices):
    OPEN = "open", "open"
    RESOLVED = "resolved", "resolved"
    IGNORED = "ignored", "ignored"
    REGRESSED = "regressed", "regressed"


class FailureGroup(models.Model):
    """Failures with one fingerprint: the same format, error, phase and model family."""

    fingerprint = models.CharField(max_length=210, unique=True)
    format = models.CharField(max_length=20)
    error_code = models.CharField(max_length=40)
    phase = models.CharField(max_length=20, choices=Phase)
    family = models.CharField("model family", max_length=120)
    count = models.PositiveBigIntegerField(default=0)
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    state = models.CharField(max_length=12, choices=GroupState, default=GroupState.OPEN)
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        # The list shows the newest first, usually without the resolved ones.
        indexes = [models.Index(fields=["state", "-last_seen"])]
        ordering = ("-last_seen",)

    def __str__(self) -> str:
        return f"{self.error_code} in {self.format} of {self.family}"

    def get_absolute_url(self) -> str:
        return reverse("audit:group", args=[self.pk])


class FailureHour(models.Model):
    """Number of failures of a group in one hour, for its sparkline."""

    group = models.ForeignKey(FailureGroup, models.CASCADE, related_name="hours")
    hour = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["group", "hour"], name="failure_hour_is_one_row")
        ]

    def __str__(self) -> str:
        return f"{self.group_id} at {self.hour}: {self.count}"


class Comment(models.Model):
    group = models.ForeignKey(FailureGroup, models.CASCADE, related_name="comments")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    text = models.TextField(max_length=5000)

    class Meta:
        ordering = ("created_at",)

    def __str__(self) -> str:
        return self.text[:80]


class Exchange(models.Model):
    """One accepted request and how it ended, without its content."""

    request_id = models.CharField(max_length=40, unique=True)
    created_at = models.DateTimeField()
    # No constraint in the database: a key may be deleted before its last rows are written.
    key = models.ForeignKey(
        ClientKey,
        models.SET_NULL,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="exchanges",
    )
    user_agent = models.CharField(max_length=200, blank=True)
    session_id = models.CharField(max_length=80, blank=True)
    dialect = models.CharField(max_length=20)
    model = models.CharField(max_length=200)
    route = models.CharField(max_length=200, blank=True)
    upstream = models.CharField(max_length=50, blank=True)
    upstream_model = models.CharField(max_length=200, blank=True)
    served_by = models.CharField(max_length=100, blank=True)
    format = models.CharField(max_length=20, blank=True)
    format_reason = models.CharField(max_length=12, blank=True)
    is_streaming = models.BooleanField(default=False)
    status = models.PositiveSmallIntegerField()
    """HTTP status sent to the client; 0 if unknown because the process died."""
    outcome = models.CharField(max_length=20, choices=Outcome)
    error_code = models.CharField(max_length=40, blank=True)
    error_source = models.CharField(max_length=10, blank=True)
    error_phase = models.CharField(max_length=20, choices=Phase, blank=True)
    error_message = models.CharField(max_length=500, blank=True)
    stop_reason = models.CharField(max_length=40, blank=True)
    tool_calls = models.PositiveIntegerField(default=0)
    rescued_calls = models.PositiveIntegerField(default=0)
    notices = models.JSONField(default=list)
    """A list of [code, detail, count]."""
    leaked_format = models.CharField(max_length=20, blank=True)
    """The format whose markup was seen in text that the client got."""
    # Null where there is none: SQLite adds such a column without copying the table.
    family_read = models.CharField(max_length=20, null=True)  # noqa: DJ001
    """The first family whose markup the format `auto` read."""
    attempts = models.JSONField(default=list)
    """Failed attempts before the last one: a list of [upstream, model, error code, message]."""
    input_tokens = models.PositiveIntegerField(null=True)
    output_tokens = models.PositiveIntegerField(null=True)
    cache_read_tokens = models.PositiveIntegerField(null=True)
    cache_creation_tokens = models.PositiveIntegerField(null=True)
    input_estimate = models.PositiveIntegerField(null=True)
    first_byte_ms = models.FloatField(null=True)
    duration_ms = models.FloatField()
    gateway_ms = models.FloatField()
    bytes_in = models.PositiveBigIntegerField(default=0)
    bytes_upstream = models.PositiveBigIntegerField(default=0)
    bytes_out = models.PositiveBigIntegerField(default=0)
    configuration_version = models.PositiveBigIntegerField()
    group = models.ForeignKey(
        FailureGroup,
        models.SET_NULL,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="exchanges",
    )

    class Meta:
        ordering = ("-id",)
        # Lists are sorted by id, newest first. Each index serves one filter of the audit list.
        indexes = [
            models.Index(fields=["outcome", "-id"]),
            models.Index(fields=["format", "-id"]),
            models.Index(fields=["model", "-id"]),
            models.Index(fields=["upstream", "-id"]),
            models.Index(fields=["served_by", "-id"]),
            models.Index(fields=["key", "-id"]),
            models.Index(fields=["error_code", "-id"]),
            models.Index(fields=["leaked_format", "-id"]),
            models.Index(
                fields=["-id"], name="exchange_rescued", condition=models.Q(rescued_calls__gt=0)
            ),
            models.Index(
                fields=["group", "-id"],
                name="exchange_group",
                condition=models.Q(group__isnull=False),
            ),
            models.Index(
                fields=["family_read", "-id"],
                name="exchange_family_read",
                condition=models.Q(family_read__isnull=False),
            ),
            models.Index(fields=["created_at"]),  # retention, and time ranges
        ]

    def __str__(self) -> str:
        return self.request_id

    def get_absolute_url(self) -> str:
        return reverse("audit:exchange", args=[self.request_id])
