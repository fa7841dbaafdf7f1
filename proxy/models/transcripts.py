"""Transcripts: the content of the exchanges that are kept, and their replays."""

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models, transaction
from django.utils.functional import cached_property

from proxy.audit.transcripts.codec import TranscriptContent, unpack
from proxy.models.audit import Exchange


class Standing(models.Model):
    """Parts of requests that transcripts of the previous version share. Nothing writes it.

    Retention and `manage.py erase` delete each row once no transcript names it. The next release
    drops the table and `Transcript.standing`: see `CONTRACTIONS` in
    `tests/proxy/database/test_schema.py`.
    """

    digest = models.CharField(max_length=64, primary_key=True)
    packed = models.BinaryField()
    used_on = models.DateField()
    """The last day on which a transcript that names it was stored."""

    def __str__(self) -> str:
        return self.digest

    @classmethod
    def unused(cls) -> "models.QuerySet[Standing]":
        """Rows that no transcript names."""
        holders = Transcript.objects.filter(standing=models.OuterRef("pk"))
        return cls.objects.filter(~models.Exists(holders))

    @classmethod
    def delete_unused(cls, rows: "models.QuerySet[Standing]", limit: int) -> int:
        """Delete up to `limit` unused rows; returns how many were deleted."""
        with transaction.atomic():
            # During an upgrade a node of the previous version may store a transcript that names a
            # row. It locks the row first: such rows are skipped here, and rows locked here make it
            # wait.
            free = rows.select_for_update(skip_locked=True).order_by("pk")
            keys = list(free.values_list("pk", flat=True)[:limit])
            # `delete()` would load the rows with their content to look for dependent rows.
            unused = cls.unused().filter(pk__in=keys)
            return unused._raw_delete(unused.db)


class Transcript(models.Model):
    """The content of an exchange, packed; `content` unpacks it."""

    exchange = models.OneToOneField(Exchange, models.CASCADE, primary_key=True)
    standing = models.ForeignKey(
        Standing, models.PROTECT, null=True, db_index=False, related_name="transcripts"
    )
    # Used only by rows that are older than packed transcripts; empty in all other rows.
    headers = models.JSONField(default=dict)
    request = models.TextField()
    tools = models.JSONField(default=list)
    reading = models.JSONField(default=dict)
    raw = models.BinaryField()
    arrivals = models.JSONField(default=list)
    events = models.JSONField(default=list)
    sent = models.BinaryField()
    left_out = models.JSONField(default=dict)
    redactions = models.PositiveIntegerField(default=0)
    packed = models.BinaryField(null=True)
    """Packed by `proxy.audit.transcripts.codec`."""

    class Meta:
        # Finds the transcripts that name a row of `Standing`.
        indexes = [
            models.Index(
                fields=["standing"],
                name="transcript_standing",
                condition=models.Q(standing__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"transcript of {self.exchange_id}"

    @cached_property
    def content(self) -> TranscriptContent:
        """The unpacked transcript; raises Unreadable."""
        if self.packed is not None:
            standing = self.standing
            return unpack(bytes(self.packed), bytes(standing.packed) if standing else b"")
        return TranscriptContent(
            headers=self.headers,
            request=self.request,
            tools=self.tools,
            reading=self.reading,
            raw=bytes(self.raw),
            arrivals=self.arrivals,
            events=self.events,
            sent=bytes(self.sent),
            left_out=self.left_out,
            redactions=self.redactions,
        )


class Replay(models.Model):
    """The result of decoding a transcript's answer again. The transcript is not changed."""

    class Result(models.TextChoices):
        FIXED = "fixed", "fixed"
        STILL_FAILING = "still_failing", "still failing"
        NEWLY_BROKEN = "newly_broken", "newly broken"
        SAME = "same", "the same"
        DIFFERENT = "different", "different"

    exchange = models.ForeignKey(Exchange, models.CASCADE, related_name="replays")
    created_at = models.DateTimeField(auto_now_add=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    format = models.CharField(max_length=20)
    buffer_limit = models.PositiveIntegerField(validators=[MinValueValidator(1024)])
    strict = models.BooleanField(default=False)
    split_thinking = models.CharField(max_length=10, null=True, blank=True)  # noqa: DJ001
    definition = models.TextField(null=True, blank=True)  # noqa: DJ001
    """The definition of an operator's format, as it was."""
    configuration_version = models.PositiveBigIntegerField()
    result = models.CharField(max_length=20, choices=Result)
    error = models.CharField(max_length=500, blank=True)
    events = models.JSONField(default=list)
    sent = models.BinaryField()

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.exchange_id} as {self.format}: {self.result}"
