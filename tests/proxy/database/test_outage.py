"""Errors of the database: temporary or permanent, without addresses, and as answers of pages."""

import sqlite3

import psycopg
import pytest
from django.db import InterfaceError, OperationalError
from django.test import RequestFactory

from proxy.database.outage import (
    OutageMiddleware,
    may_recover,
    message_without_password,
    safe_reason,
)


def server_error(message):
    """Return an error of the server, as Django wraps it."""
    error = OperationalError(message)
    error.__cause__ = psycopg.OperationalError(message)
    return error


def test_temporary_and_permanent_database_errors_are_distinguished():
    assert may_recover(
        server_error('connection to server at "10.0.0.1", port 5432 failed: refused')
    )
    assert may_recover(server_error("FATAL:  the database system is starting up"))
    assert not may_recover(server_error('FATAL:  password authentication failed for user "athena"'))
    assert not may_recover(ValueError("x"))
    locked = OperationalError("database is locked")
    locked.__cause__ = sqlite3.OperationalError("database is locked")
    assert (may_recover(locked), safe_reason(locked)) == (True, "database is locked")


def test_database_errors_are_reported_without_addresses(settings, monkeypatch):
    error = server_error("connection to postgres://athena:canary-password@10.0.0.1 failed")
    assert safe_reason(error) == "OperationalError"
    refused = server_error(
        'connection to server at "10.0.0.1", port 5432 failed: Connection refused'
    )
    assert safe_reason(refused) == "OperationalError: Connection refused"
    monkeypatch.setitem(settings.DATABASES["default"], "PASSWORD", "canary-password")
    assert "canary" not in message_without_password(error)


@pytest.mark.parametrize("error", [OperationalError("canary"), InterfaceError("canary")])
def test_an_outage_is_503_in_html_on_pages_and_in_json_in_the_api(error):
    middleware = OutageMiddleware(lambda request: None)
    page = middleware.process_exception(RequestFactory().get("/admin/"), error)
    assert (page.status_code, page["retry-after"]) == (503, "5")
    assert "The database is unavailable" in page.content.decode()
    answer = middleware.process_exception(RequestFactory().get("/api/exchanges/"), error)
    assert (answer.status_code, answer["content-type"]) == (503, "application/json")
    assert b"canary" not in page.content + answer.content
    assert middleware.process_exception(RequestFactory().get("/admin/"), ValueError()) is None
