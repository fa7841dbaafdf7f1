"""Who tries passwords is locked out: a name at an address soon, an address with many names later.

On top of django-axes, which counts in the database, so that all processes and nodes count
together. The address is the connection's own, or what a trusted proxy says of it. The answer is
the same for a name that exists and for one that does not, and so is the time that it takes: the
password of nobody is hashed, too.
"""

import logging
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

logger = logging.getLogger("athena.login")


class Lockout(AxesDatabaseHandler):  # type: ignore[misc]
    def is_locked(self, request: Any, credentials: dict[str, Any] | None = None) -> bool:
        if super().is_locked(request, credentials):
            return True
        recent = AccessAttempt.objects.filter(
            ip_address=address_of(request), attempt_time__gte=get_cool_off_threshold(request)
        )
        failures = recent.aggregate(number=Sum("failures_since_start"))["number"] or 0
        if failures < settings.AXES_FAILURE_LIMIT_OF_ADDRESS:
            return False
        request.axes_locked_out = True  # axes itself looks at the failures of the name only
        return True


def address_of(request: HttpRequest) -> str | None:
    """The server has put it there, after asking trusted proxies; headers are not believed."""
    address: str | None = request.META.get("REMOTE_ADDR")
    return address


def locked_out(request: HttpRequest, *unused: object) -> HttpResponse:
    """Instead of the login page. The log has the name only of a user: what else was typed there
    may be a password."""
    name = request.POST.get("username", "")
    is_user = get_user_model()._default_manager.filter(username=name).exists()
    found = {"address": address_of(request), "username": name if is_user else None}
    logger.warning("too many failed logins", extra={"fields": found})
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    shown = {"minutes": seconds // 60, "title": "Too many failed logins"}
    response = render(request, "admin/locked.html", shown, status=429)
    response.headers["retry-after"] = str(seconds)
    return response
