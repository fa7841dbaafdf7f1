"""Refused page requests: what the user sees, and what the log says."""

import logging

import pytest
from django.contrib.auth.models import User
from django.test import Client

from proxy.roles import SUPPORT
from proxy.telemetry.log_format import TextFormatter
from tests.support.staff_pages import log_in
from tests.support.stored_exchanges import configure

PASSWORD = "a password of the tests"


@pytest.fixture(autouse=True)
def _configured(db, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


@pytest.mark.parametrize("url", ["/admin/proxy/upstream/", "/admin/rules/"])
def test_a_refused_page_logs_no_traceback(caplog, url):
    """N10"""
    client = Client()
    log_in(client, SUPPORT)
    with caplog.at_level(logging.WARNING, "django.request"):
        assert client.get(url).status_code == 403
    (record,) = caplog.records
    line = TextFormatter().format(record)
    assert "Forbidden" in line
    assert "Traceback" not in line


def test_a_defect_still_logs_its_traceback(caplog, monkeypatch):
    client = Client(raise_request_exception=False)
    log_in(client, SUPPORT)
    monkeypatch.setattr("proxy.pages.audit_list.render_page", None)
    assert client.get("/admin/audit/").status_code == 500
    assert "Traceback" in TextFormatter().format(caplog.records[-1])


@pytest.mark.parametrize(
    "target", ["//evil", "https://evil.example/", "/\\evil", "javascript:alert(1)", ""]
)
def test_a_login_that_leads_elsewhere_ends_on_the_dashboard(target):
    """N10: it led to a page that does not exist."""
    User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    client, form = Client(), {"username": "ada", "password": PASSWORD, "next": target}
    response = client.post("/admin/login/", form, query_params={"next": target}, follow=True)
    assert response.redirect_chain[0] == ("/admin/", 302)
    assert response.status_code == 200
