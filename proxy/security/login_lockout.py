"""Locks out failed logins, first per username and address, then per address.

Extends django-axes, which counts in the database, so that all processes and nodes share the
counts. The address is the peer's, or the one that a trusted proxy reports. The response and its
duration do not reveal whether a username exists: a password is hashed in either case.
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


class LockoutHandler(AxesDatabaseHandler):  # type: ignore[misc]
    def is_locked(self, request: Any, credentials: dict[str, Any] | None = None) -> bool:
        if super().is_locked(request, credentials):
            return True
        recent = AccessAttempt.objects.filter(
            ip_address=client_address(request), attempt_time__gte=get_cool_off_threshold(request)
        )
        failures = recent.aggregate(number=Sum("failures_since_start"))["number"] or 0
        if failures < settings.AXES_FAILURE_LIMIT_OF_ADDRESS:
            return False
        request.axes_locked_out = True  # axes counts only per username
        return True


def client_address(request: HttpRequest) -> str | None:
    """Return the address that the server determined. Headers of the request are not read here."""
    address: str | None = request.META.get("REMOTE_ADDR")
    return address


def lockout_response(request: HttpRequest, *unused: object) -> HttpResponse:
    """Answer instead of the login page.

    The log names only existing users: anything else may be a password in the wrong field.
    """
    name = request.POST.get("username", "")
    is_user = get_user_model()._default_manager.filter(username=name).exists()
    fields = {"address": client_address(request), "username": name if is_user else None}
    logger.warning("too many failed logins", extra={"fields": fields})
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    context = {"minutes": seconds // 60, "title": "Too many failed logins"}
    response = render(request, "admin/locked.html", context, status=429)
    response.headers["retry-after"] = str(seconds)
    return response
