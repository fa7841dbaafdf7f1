"""Database outages: recognises them, describes them safely, and answers pages with 503.

Messages of database errors contain the address, name and user of the database, so they are never
shown to clients or written to the log.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string

OUTAGE_ERRORS = (OperationalError, InterfaceError)
OUTAGE_MESSAGE = "The database is unavailable. Try again."
_RETRY_AFTER = "5"
_TEMPORARY = ("starting up", "shutting down", "recovery", "too many", "connection slots")
# Parts of messages that contain no address, name or user.
_SAFE_PARTS = (
    *("too many clients", "connection slots", "starting up", "shutting down", "recovery mode"),
    *("Connection refused", "timeout expired", "could not translate host name"),
    *("password authentication failed", "does not exist", "No space left on device"),
    *("server closed the connection", "terminating connection", "canceling statement"),
)


def safe_reason(error: BaseException) -> str:
    """Describe an error without the address, name or user of the database."""
    cause = error.__cause__ or error
    if isinstance(cause, sqlite3.Error):
        return str(cause)  # fixed messages, such as "database is locked"
    message, name = str(cause), type(cause).__name__
    return next((f"{name}: {part}" for part in _SAFE_PARTS if part in message), name)


def message_without_password(error: BaseException) -> str:
    """Return the full message without the password, for the operator who starts the gateway."""
    password = settings.DATABASES["default"].get("PASSWORD")
    message = " ".join(str(error).split())
    return message.replace(password, "…") if password else message


def may_recover(error: BaseException) -> bool:
    """Return True if the database may recover by itself: unreachable, starting or locked."""
    if not isinstance(error, OUTAGE_ERRORS):
        return False
    message = str(error)
    if isinstance(error.__cause__, sqlite3.Error):
        return "locked" in message
    # FATAL comes from a server that answers: a wrong password or name does not fix itself.
    return "FATAL" not in message or any(part in message for part in _TEMPORARY)


class OutageMiddleware:
    """Middleware that answers 503 if a view fails because of a database outage."""

    sync_capable = async_capable = True

    def __init__(
        self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]
    ) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return _answer(request) if isinstance(error, OUTAGE_ERRORS) else None


class OutageSessionMiddleware(SessionMiddleware):
    """Django's session middleware, which saves the session after the view. An outage there is not
    an exception of the view."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        try:
            return super().process_response(request, response)
        except OUTAGE_ERRORS:
            return response if response.status_code >= 500 else _answer(request)


def _answer(request: HttpRequest) -> HttpResponse:
    response: HttpResponse
    if request.path.startswith("/api/"):
        response = JsonResponse({"detail": OUTAGE_MESSAGE}, status=503)
    else:
        # Without the request: its user is in the database.
        response = HttpResponse(render_to_string("503.html"), status=503)
    response["retry-after"] = _RETRY_AFTER
    return response


@contextmanager
def statement_timeout(seconds: int | None) -> Iterator[None]:
    """Set the statement timeout of PostgreSQL; None disables it."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.patience(seconds):  # type: ignore[attr-defined]
        yield
