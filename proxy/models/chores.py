"""Work that one process of many does, now and then."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q


class Chore(models.Model):
    """Who does it until when, and when it was last done: a row that is a lock.

    A holder that dies lets go by itself, when its time is over.
    """

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=40, blank=True)
    held_until = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def take(
        cls,
        name: str,
        holder: str,
        *,
        now: datetime,
        hold: timedelta,
        unless_done_since: datetime | None = None,
    ) -> bool:
        """Whether the work is now the holder's; False if somebody has it, or it is not due."""
        cls.objects.get_or_create(name=name)
        free = cls.objects.filter(Q(held_until=None) | Q(held_until__lt=now), name=name)
        if unless_done_since is not None:
            free = free.filter(Q(done_at=None) | Q(done_at__lt=unless_done_since))
        return free.update(holder=holder, held_until=now + hold) == 1

    @classmethod
    def keep(cls, name: str, holder: str, until: datetime) -> bool:
        """Hold it longer; False if it was lost to another."""
        return cls.objects.filter(name=name, holder=holder).update(held_until=until) == 1

    @classmethod
    def release(cls, name: str, holder: str, *, done_at: datetime | None = None) -> None:
        mine = cls.objects.filter(name=name, holder=holder)
        if done_at is None:
            mine.update(held_until=None, holder="")
        else:
            mine.update(held_until=None, holder="", done_at=done_at)
