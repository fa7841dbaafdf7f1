"""Sums of the exchanges, by the hour and by the day: the dashboard reads them instead of the rows.

They are written in the transaction that writes the exchanges, so that they are never behind and
never wrong. Each facet has sums of its own: a table of all combinations would be nearly as long as
the exchanges themselves where many models are asked for.
"""

from django.db import models


class Span(models.TextChoices):
    """How much time a sum is of, from its start, in UTC."""

    HOUR = "hour", "hour"
    DAY = "day", "day"


class Facet(models.TextChoices):
    """What the exchanges of a sum have in common."""

    ALL = "all", "nothing"
    MODEL = "model", "the model that was asked for"
    FORMAT = "format", "the format of the answer"
    SERVED_BY = "served_by", "who answered"


class Measure(models.TextChoices):
    FIRST_BYTE = "first_byte", "time to the first byte"
    GATEWAY = "gateway", "the gateway's own time"


class TrafficSum(models.Model):
    span = models.CharField(max_length=4, choices=Span)
    facet = models.CharField(max_length=10, choices=Facet)
    start = models.DateTimeField()
    value = models.CharField(max_length=200, blank=True)
    """Of the facet. Who answered is the upstream's name, a space, and what it said itself."""
    requests = models.PositiveBigIntegerField()
    failures = models.PositiveBigIntegerField()
    client_errors = models.PositiveBigIntegerField()
    disconnects = models.PositiveBigIntegerField()
    calls = models.PositiveBigIntegerField()
    calls_rescued = models.PositiveBigIntegerField()
    rescued = models.PositiveBigIntegerField()
    """Exchanges with a rescued call."""
    leaked = models.PositiveBigIntegerField()
    tokens_in = models.PositiveBigIntegerField(null=True)
    """Null if no upstream told any; so are the others."""
    tokens_out = models.PositiveBigIntegerField(null=True)
    tokens_cached = models.PositiveBigIntegerField(null=True)

    class Meta:
        # In the order of the dashboard's question: a facet, from a time on.
        constraints = [
            models.UniqueConstraint(
                fields=["span", "facet", "start", "value"], name="traffic_sum_is_one_row"
            )
        ]
        indexes = [models.Index(fields=["start"])]  # retention

    def __str__(self) -> str:
        return f"{self.facet} {self.value} in the {self.span} of {self.start}: {self.requests}"


class TrafficTime(models.Model):
    """Exchanges per duration bucket; `proxy.audit.traffic.histogram` defines the buckets."""

    span = models.CharField(max_length=4, choices=Span)
    measure = models.CharField(max_length=10, choices=Measure)
    start = models.DateTimeField()
    bucket = models.SmallIntegerField()
    count = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["span", "measure", "start", "bucket"], name="traffic_time_is_one_row"
            )
        ]
        indexes = [models.Index(fields=["start"])]  # retention

    def __str__(self) -> str:
        return f"{self.measure} {self.bucket} in the {self.span} of {self.start}: {self.count}"
