"""Chores: periodic work that only one process does at a time."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q


class Chore(models.Model):
    """A lock that expires, and the time at which the work was last done.

    A holder that died therefore does not block the work.
    """

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=40, blank=True)
    held_until = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def acquire(
        cls,
        name: str,
        holder: str,
        *,
        now: datetime,
        hold: timedelta,
        unless_done_since: datetime | None = None,
    ) -> bool:
        """Acquire the lock; False if another process holds it, or the work is not due."""
        cls.objects.get_or_create(name=name)
        free = cls.objects.filter(Q(held_until=None) | Q(held_until__lt=now), name=name)
        if unless_done_since is not None:
            free = free.filter(Q(done_at=None) | Q(done_at__lt=unless_done_since))
        return free.update(holder=holder, held_until=now + hold) == 1

    @classmethod
    def extend(cls, name: str, holder: str, until: datetime) -> bool:
        """Extend the lock; False if it has expired and another process holds it."""
        return cls.objects.filter(name=name, holder=holder).update(held_until=until) == 1

    @classmethod
    def release(cls, name: str, holder: str, *, done_at: datetime | None = None) -> None:
        mine = cls.objects.filter(name=name, holder=holder)
        if done_at is None:
            mine.update(held_until=None, holder="")
        else:
            mine.update(held_until=None, holder="", done_at=done_at)
