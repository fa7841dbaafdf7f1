"""Running processes of the gateway, as they report themselves."""

from datetime import UTC, datetime, timedelta

from django.db import models
from django.db.models import QuerySet
from django.db.models.functions import Now

_MAX_SILENCE = timedelta(seconds=10)


class GatewayProcess(models.Model):
    """One running process. It reports every two seconds, and deletes its row when it stops.

    Times are the database's, because the clocks of machines differ.
    """

    # Not host and process id: many containers have the same.
    token = models.CharField(max_length=16, primary_key=True)
    name = models.CharField(max_length=100)
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    configuration_version = models.PositiveBigIntegerField(null=True)
    open_streams = models.PositiveIntegerField()
    audit_waiting = models.PositiveIntegerField()
    audit_dropped = models.PositiveBigIntegerField()
    suspected = models.JSONField(null=True)
    """Addresses of upstreams whose connections the process does not reuse because they sent data
    without a request, and until when (seconds since the epoch). Null from an older version."""

    def __str__(self) -> str:
        return self.name

    @classmethod
    def running(cls) -> "QuerySet[GatewayProcess]":
        """Processes that reported within the last ten seconds."""
        return cls.objects.filter(seen_at__gte=Now() - _MAX_SILENCE).order_by("name", "started_at")

    @classmethod
    def suspicion(cls, address: str) -> datetime | None:
        """Return until when any process does not reuse connections to an upstream's address."""
        found = [(row.suspected or {}).get(address, 0) for row in cls.running()]
        return datetime.fromtimestamp(max(found), UTC) if any(found) else None
