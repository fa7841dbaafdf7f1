"""Logins: lockout after failures, no disclosure of user names, and the end of sessions."""

import json
import re
import time
from datetime import timedelta

import httpx
import pytest
from axes.models import AccessAttempt
from django.conf import settings as configured_settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db
PASSWORD = "a password that is long"


@pytest.fixture(autouse=True)
def user(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return User.objects.create_user("sue", password=PASSWORD, is_staff=True)


def log_in(name, password, address="192.0.2.1", client=None, **headers):
    client = client or Client()
    form = {"username": name, "password": password}
    return client.post("/admin/login/", form, REMOTE_ADDR=address, headers=headers)


def test_the_fifth_failure_locks_out_a_user_at_an_address():
    statuses = [log_in("sue", "wrong").status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 429]
    locked = log_in("sue", PASSWORD)  # the right password is rejected, too
    assert locked.status_code == 429
    assert locked.headers["retry-after"] == "900"
    assert "script-src 'self'" in locked.headers["content-security-policy"]
    assert locked.headers["cache-control"] == "no-store"
    assert "athena/theme.css" in locked.text
    assert "sue" not in locked.text
    assert locked.text.count("<h1>") == 1
    assert ".venv/bin/python manage.py axes_reset_username" in locked.text
    assert log_in("sue", PASSWORD, "192.0.2.2").status_code == 302


def test_forwarding_headers_of_clients_do_not_change_their_address():
    for number in range(5):
        log_in("sue", "wrong", **{"x-forwarded-for": f"198.51.100.{number}"})
    assert log_in("sue", PASSWORD, **{"x-forwarded-for": "198.51.100.77"}).status_code == 429


def test_an_address_that_tries_many_names_is_locked_out():
    assert configured_settings.AXES_FAILURE_LIMIT_OF_ADDRESS == 50
    statuses = {log_in(f"name-{number}", "wrong").status_code for number in range(50)}
    assert statuses == {200}
    assert log_in("sue", PASSWORD).status_code == 429
    assert log_in("sue", PASSWORD, "192.0.2.2").status_code == 302


def test_a_lockout_ends_after_its_time_or_by_command():
    for _ in range(5):
        log_in("sue", "wrong")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert log_in("sue", PASSWORD).status_code == 302
    for _ in range(5):
        log_in("sue", "wrong")
    assert log_in("sue", PASSWORD).status_code == 429
    call_command("axes_reset_username", "sue")
    assert log_in("sue", PASSWORD).status_code == 302


def test_a_successful_login_resets_the_failures():
    for _ in range(3):
        for _ in range(4):
            assert log_in("sue", "wrong").status_code == 200
        assert log_in("sue", PASSWORD).status_code == 302


def test_responses_do_not_reveal_which_names_exist(settings):
    User.objects.create_user("gone", password=PASSWORD, is_staff=True, is_active=False)
    User.objects.create_user("client", password=PASSWORD)  # not staff
    pages = {}
    for name in ("sue", "nobody", "gone", "client"):
        text = log_in(name, "wrong", f"192.0.2.{len(pages) + 10}").text
        pages[name] = [line for line in text.splitlines() if "csrf" not in line]
        pages[name] = "\n".join(pages[name]).replace(name, "NAME")
    assert len(set(pages.values())) == 1
    for _ in range(5):
        locked = [log_in(name, "wrong", f"198.51.100.{n}") for n, name in enumerate(pages)]
    assert {response.status_code for response in locked} == {429}
    assert len({response.content for response in locked}) == 1


def test_unknown_names_take_as_long_as_known_ones(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
    User.objects.create_user("ann", password=PASSWORD, is_staff=True)

    def shortest(name):
        durations = []
        for number in range(4):
            started_at = time.process_time()
            log_in(name, "wrong", f"203.0.113.{number}")
            durations.append(time.process_time() - started_at)
        return min(durations)

    log_in("warm", "wrong", "203.0.113.99")
    known, unknown = shortest("ann"), shortest("nobody")
    assert unknown > known / 2  # without hashing it would take a twentieth


def test_a_failed_password_is_not_stored():
    log_in("sue", "canary-of-a-password")
    assert "canary" not in str(list(AccessAttempt.objects.values()))


def test_a_lockout_is_logged_with_user_and_address_but_without_passwords(gateway):
    gateway.edit(
        "from django.contrib.auth.models import User\n"
        "User.objects.create_user('locked-lou', password='canary-of-lou', is_staff=True)"
    )
    for name in ("locked-lou", "canary-in-the-wrong-box"):
        with httpx.Client(base_url=gateway.url, timeout=30) as browser:
            for _ in range(5):
                token = re.search(
                    r'csrfmiddlewaretoken" value="([^"]+)', browser.get("/admin/login/").text
                )
                form = {"username": name, "password": "canary", "csrfmiddlewaretoken": token[1]}
                status = browser.post(
                    "/admin/login/", data=form, headers={"referer": gateway.url}
                ).status_code
            assert status == 429

    def lockout_lines():
        lines = [line for line in gateway.log.splitlines() if "too many failed logins" in line]
        return len(lines) == 2 and [json.loads(line) for line in lines]

    lou, unknown = wait_for(lockout_lines)
    assert (lou["username"], lou["address"]) == ("locked-lou", "127.0.0.1")
    assert ("username" in unknown, unknown["address"]) == (False, "127.0.0.1")
    assert "AXES" not in gateway.log
    assert "canary-in" not in gateway.log


def test_a_login_starts_a_new_session_that_ends_when_idle(settings):
    client = Client()
    client.get("/admin/login/")
    session = client.session
    session["planted"] = "by an attacker"
    session.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = planted = session.session_key
    assert log_in("sue", PASSWORD, client=client).status_code == 302
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    assert cookie.value != planted
    assert (cookie["httponly"], cookie["samesite"], cookie["max-age"]) == (True, "Lax", 8 * 3600)
    # Every request extends the session to eight hours again.
    assert client.get("/admin/").cookies[settings.SESSION_COOKIE_NAME]["max-age"] == 8 * 3600
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert client.get("/admin/").status_code == 302


def test_logging_out_everywhere_ends_only_the_users_own_sessions(user):
    other = User.objects.create_user("otto", password=PASSWORD, is_staff=True)
    laptop, phone, others = Client(), Client(), Client()
    for client, owner in ((laptop, user), (phone, user), (others, other)):
        client.force_login(owner)
        assert client.get("/admin/").status_code == 200
    page = laptop.get("/admin/sessions/end")
    assert (page.status_code, "out of this and all other browsers?" in page.text) == (200, True)
    assert phone.get("/admin/").status_code == 200, "opening the page must not end sessions"
    assert Client(enforce_csrf_checks=True).post("/admin/sessions/end").status_code in (302, 403)
    assert "Log out everywhere" in laptop.get("/admin/").text
    assert laptop.post("/admin/sessions/end").status_code == 302
    for client, status in ((laptop, 302), (phone, 302), (others, 200)):
        assert client.get("/admin/").status_code == status


def test_a_password_change_ends_the_other_sessions(user):
    here, elsewhere = Client(), Client()
    here.force_login(user)
    elsewhere.force_login(user)
    new = "another password that is long"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert here.post("/admin/password_change/", form).status_code == 302
    assert here.get("/admin/").status_code == 200
    assert elsewhere.get("/admin/").status_code == 302
