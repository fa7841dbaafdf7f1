"""What was said in some exchanges: transcripts, what they share, and what came of reading again."""

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models, transaction
from django.utils.functional import cached_property

from proxy.audit.transcripts.codec import Said, unpack
from proxy.models.audit import Exchange


class Standing(models.Model):
    """What stands in the requests of transcripts from turn to turn, stored once for all of them."""

    digest = models.CharField(max_length=64, primary_key=True)
    packed = models.BinaryField()
    """As `proxy.audit.transcripts.codec` packs it."""
    used_on = models.DateField()
    """When a transcript was last stored that has it."""

    def __str__(self) -> str:
        return self.digest

    @classmethod
    def unused(cls) -> "models.QuerySet[Standing]":
        """Those that no transcript has any more."""
        holders = Transcript.objects.filter(standing=models.OuterRef("pk"))
        return cls.objects.filter(~models.Exists(holders))

    @classmethod
    def forget(cls, rows: "models.QuerySet[Standing]", most: int) -> int:
        """Delete some of them, but for those that are being used again just now; how many."""
        with transaction.atomic():
            # Whoever stores a transcript locks what it has first: that is left alone, and none
            # of these is used before they are gone.
            free = rows.select_for_update(skip_locked=True).order_by("pk")
            keys = list(free.values_list("pk", flat=True)[:most])
            # Without Django's own look at what depends on them, which reads them whole.
            gone = cls.unused().filter(pk__in=keys)
            return gone._raw_delete(gone.db)


class Transcript(models.Model):
    """What an exchange said; `said` opens it."""

    exchange = models.OneToOneField(Exchange, models.CASCADE, primary_key=True)
    standing = models.ForeignKey(
        Standing, models.PROTECT, null=True, db_index=False, related_name="transcripts"
    )
    # Empty where there is `packed`: a row of the version before has these instead.
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
    """As `proxy.audit.transcripts.codec` packs it."""

    class Meta:
        # Whether a standing part is still used.
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
    def said(self) -> Said:
        """Raises Unreadable."""
        if self.packed is not None:
            standing = self.standing
            return unpack(bytes(self.packed), bytes(standing.packed) if standing else b"")
        return Said(
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
    """A transcript's answer, read again; the original is never changed."""

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
    configuration_version = models.PositiveBigIntegerField()
    result = models.CharField(max_length=20, choices=Result)
    error = models.CharField(max_length=500, blank=True)
    events = models.JSONField(default=list)
    sent = models.BinaryField()

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.exchange_id} as {self.format}: {self.result}"
