"""The database away: which errors say so, in which words, and what a page answers then.

Their own words have the database's address, its name and its user: they are told to nobody.
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

AWAY = (OperationalError, InterfaceError)
SENTENCE = "The database is away: try again."
_RETRY_AFTER = "5"
_PASSING = ("starting up", "shutting down", "recovery", "too many", "connection slots")
# Of a server's and its library's words, those that name nobody.
_KNOWN = (
    *("too many clients", "connection slots", "starting up", "shutting down", "recovery mode"),
    *("Connection refused", "timeout expired", "could not translate host name"),
    *("password authentication failed", "does not exist", "No space left on device"),
    *("server closed the connection", "terminating connection", "canceling statement"),
)


def reason(error: BaseException) -> str:
    """What is wrong, without the database's address."""
    cause = error.__cause__ or error
    if isinstance(cause, sqlite3.Error):
        return str(cause)  # a fixed sentence: the database is locked, or full
    words, name = str(cause), type(cause).__name__
    return next((f"{name}: {known}" for known in _KNOWN if known in words), name)


def told(error: BaseException) -> str:
    """Its own words, for who starts the gateway; without the password, whoever quotes it."""
    password = settings.DATABASES["default"].get("PASSWORD")
    words = " ".join(str(error).split())  # a server's words may have many lines
    return words.replace(password, "…") if password else words


def is_away(error: BaseException) -> bool:
    """Whether the database may be back by itself: it is not there, starting, or held by another."""
    if not isinstance(error, AWAY):
        return False
    words = str(error)
    if isinstance(error.__cause__, sqlite3.Error):
        return "locked" in words
    # A server that answers says FATAL; of a wrong password or name it will say so again.
    return "FATAL" not in words or any(part in words for part in _PASSING)


class AnswerOutage:
    """Middleware: 503 for a page or a program that needs the database."""

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
        return _answer(request) if isinstance(error, AWAY) else None


class Sessions(SessionMiddleware):
    """Django's own, which reads and saves the session after the view; what fails there is no
    exception of a view."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        try:
            return super().process_response(request, response)
        except AWAY:
            return response if response.status_code >= 500 else _answer(request)


def _answer(request: HttpRequest) -> HttpResponse:
    response: HttpResponse
    if request.path.startswith("/api/"):
        response = JsonResponse({"detail": SENTENCE}, status=503)
    else:
        # Without the request: who is asking is in the database.
        response = HttpResponse(render_to_string("503.html"), status=503)
    response["retry-after"] = _RETRY_AFTER
    return response


@contextmanager
def patience(seconds: int | None) -> Iterator[None]:
    """Let statements take longer than a page's may; None is as long as they like."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.patience(seconds):  # type: ignore[attr-defined]
        yield
