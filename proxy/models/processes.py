"""Running processes of the gateway, as they report themselves."""

from datetime import timedelta

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

    def __str__(self) -> str:
        return self.name

    @classmethod
    def running(cls) -> "QuerySet[GatewayProcess]":
        """Processes that reported within the last ten seconds."""
        return cls.objects.filter(seen_at__gte=Now() - _MAX_SILENCE).order_by("name", "started_at")
