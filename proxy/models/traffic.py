"""Traffic sums per hour and per day. The dashboard reads them instead of the exchanges.

They are written in the transaction that inserts the exchanges, so they always match. Each facet
has sums of its own: with many models, a table of all combinations would be nearly as long as the
table of exchanges.
"""

from django.db import models


class Span(models.TextChoices):
    """Length of time that a sum covers, from its start, in UTC."""

    HOUR = "hour", "hour"
    DAY = "day", "day"


class Facet(models.TextChoices):
    """The property that the exchanges of a sum share."""

    ALL = "all", "all exchanges"
    MODEL = "model", "requested model"
    FORMAT = "format", "the format of the answer"
    SERVED_BY = "served_by", "provider"


class Measure(models.TextChoices):
    FIRST_BYTE = "first_byte", "time to the first byte"
    GATEWAY = "gateway", "the gateway's own time"


class TrafficSum(models.Model):
    span = models.CharField(max_length=4, choices=Span)
    facet = models.CharField(max_length=10, choices=Facet)
    start = models.DateTimeField()
    value = models.CharField(max_length=200, blank=True)
    """Value of the facet. For SERVED_BY: the upstream's name, a space, and the name it reports."""
    requests = models.PositiveBigIntegerField()
    failures = models.PositiveBigIntegerField()
    client_errors = models.PositiveBigIntegerField()
    disconnects = models.PositiveBigIntegerField()
    calls = models.PositiveBigIntegerField()
    calls_rescued = models.PositiveBigIntegerField()
    rescued = models.PositiveBigIntegerField()
    """Number of exchanges with a rescued call."""
    leaked = models.PositiveBigIntegerField()
    tokens_in = models.PositiveBigIntegerField(null=True)
    """Null if no upstream reported any; the same for the other token columns."""
    tokens_out = models.PositiveBigIntegerField(null=True)
    tokens_cached = models.PositiveBigIntegerField(null=True)

    class Meta:
        # In the order of the dashboard's query: one facet, from a time on.
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
