"""Concurrent edits: no change is lost, made twice, or answered with a server error.

The test's lock makes the concurrent change itself, at the moment when the edit under test waits for
the lock. That is the worst moment, and it is the same on every database.
"""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ValidationError
from django.db.transaction import TransactionManagementError
from django.test import Client
from django.utils import timezone

from proxy.configuration.client_keys import revoke, rotate
from proxy.configuration.preview import effects_of
from proxy.models import (
    ClientKey,
    ConfigurationVersion,
    FormatOverride,
    ModelRoute,
    Upstream,
)
from tests.support.staff_pages import (
    OVERRIDE_FORM,
    UPSTREAM_FORM,
    configuration_version,
    operator_client,
    seen_version,
    text_of,
)
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


@pytest.fixture
def olga():
    return operator_client("olga")


@pytest.fixture
def during_lock_wait(monkeypatch):
    """Runs a function while the code under test waits for its first lock."""
    lock = ConfigurationVersion.lock

    def plan(act):
        def waiting(cls):
            monkeypatch.setattr(ConfigurationVersion, "lock", lock)
            act()
            lock()

        monkeypatch.setattr(ConfigurationVersion, "lock", classmethod(waiting))

    return plan


def make_key(label="ada"):
    key = ClientKey(label=label)
    key.adopt(f"sk-athena-{label}-at-once")
    key.save()
    return key


@pytest.mark.django_db(transaction=True)
def test_locking_outside_a_transaction_is_an_error():
    with pytest.raises(TransactionManagementError):
        ConfigurationVersion.lock()


@pytest.mark.django_db(transaction=True)
def test_an_existing_row_has_a_preview_on_every_database():
    client = Client()
    User.objects.update(is_staff=True, is_active=True)
    client.force_login(User.objects.get(username="root"))
    row = FormatOverride.objects.create(pattern="house/*", format="standard")
    url = f"/admin/proxy/formatoverride/{row.pk}/change/"
    page, before = text_of(client.get(url)), configuration_version()
    assert "demo: house/* as kimi" in text_of(
        client.post(url, {**OVERRIDE_FORM, "seen": seen_version(page), "_preview": "1"})
    )
    row.refresh_from_db()
    assert (row.format, configuration_version()) == ("standard", before)


@pytest.mark.parametrize("table", ["clientkey", "formatsettings"])
def test_tables_that_do_not_affect_routing_have_no_preview(olga, table):
    url = f"/admin/proxy/{table}/add/"
    form = {"label": "ada", "allowed_models": "", "making": "one"}
    assert olga.post(url, {**form, "_preview": "1"}).status_code == 404
    if table == "clientkey":
        assert "sk-athena-" in text_of(olga.post(url, form))
        assert ClientKey.objects.filter(label="ada").count() == 1


def test_a_preview_does_not_show_the_changes_of_others(during_lock_wait):
    ModelRoute.objects.create(pattern="house/mine", upstream=Upstream.objects.get(name="demo"))
    created = []

    def override():
        created.append(FormatOverride.objects.create(pattern="house/*", format="kimi"))

    during_lock_wait(override)
    assert effects_of(lambda: None, timezone.now()) == []
    assert created


def test_disabling_rows_keeps_the_changes_of_others(olga, during_lock_wait):
    row = Upstream.objects.create(name="mine", base_url="http://old")
    during_lock_wait(lambda: Upstream.objects.filter(pk=row.pk).update(base_url="http://new"))
    chosen = {"action": "disable", "_selected_action": [row.pk], "confirmed": "yes"}
    olga.post("/admin/proxy/upstream/", chosen)
    row.refresh_from_db()
    assert (row.base_url, row.active) == ("http://new", False)


def test_deleting_selected_rows_holds_the_lock(olga, during_lock_wait):
    row = FormatOverride.objects.create(pattern="house/*", format="kimi")
    locked = []
    during_lock_wait(lambda: locked.append(FormatOverride.objects.filter(pk=row.pk).exists()))
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    olga.post("/admin/proxy/formatoverride/", chosen)
    assert locked == [True]
    assert not FormatOverride.objects.filter(pk=row.pk).exists()


def test_two_concurrent_rotations_make_one_key(during_lock_wait):
    key = make_key()

    def rotate_once():
        return rotate(ClientKey.objects.get(pk=key.pk), timedelta(hours=1), timezone.now())

    during_lock_wait(rotate_once)
    with pytest.raises(ValidationError, match="already replaced"):
        rotate(key, timedelta(hours=1), timezone.now())


def test_a_key_that_is_revoked_concurrently_is_not_rotated(during_lock_wait):
    key = make_key()
    during_lock_wait(lambda: revoke(ClientKey.objects.get(pk=key.pk), timezone.now()))
    with pytest.raises(ValidationError, match="revoked"):
        rotate(key, timedelta(hours=1), timezone.now())
    assert not ClientKey.objects.filter(replaces=key).exists()


def test_two_concurrent_revocations_are_one_change(olga, during_lock_wait):
    key = make_key()

    def rename_and_revoke():
        other = ClientKey.objects.get(pk=key.pk)
        other.label = "renamed"
        other.save()
        revoke(other, timezone.now())

    during_lock_wait(rename_and_revoke)
    olga.post(f"/admin/proxy/clientkey/{key.pk}/revoke/")
    assert [record.label for record in key.history.all()] == ["renamed", "renamed", "ada"]


def test_a_form_that_is_sent_twice_makes_one_key(olga, during_lock_wait):
    url, form = "/admin/proxy/clientkey/add/", {"label": "twice", "making": "one"}
    other = Client()
    other.cookies = olga.cookies
    answers = []
    during_lock_wait(lambda: answers.append(other.post(url, form)))
    answers.append(olga.post(url, form))
    assert [answer.status_code for answer in answers] == [200, 302]
    assert ClientKey.objects.filter(label="twice").count() == 1


def test_a_user_who_may_only_view_keys_cannot_revoke_them():
    user = User.objects.create(username="vera", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_clientkey"))
    client, key = Client(), make_key()
    client.force_login(user)
    client.post("/admin/proxy/clientkey/", {"action": "revoke", "_selected_action": [key.pk]})
    key.refresh_from_db()
    assert key.revoked_at is None


@pytest.mark.parametrize("number", ["abc", "-1", "9" * 30, "²"])
def test_reverting_a_row_that_never_existed_is_not_found(olga, number):
    assert olga.post(f"/admin/proxy/upstream/{number}/history/1/revert/").status_code == 404


def test_two_upstreams_of_one_name_at_the_same_time_are_a_form_error(olga, during_lock_wait):
    during_lock_wait(lambda: Upstream.objects.create(name="mine", base_url="http://old"))
    answer = olga.post("/admin/proxy/upstream/add/", UPSTREAM_FORM)
    assert answer.status_code == 200
    assert "already exists" in answer.content.decode()


def test_an_outdated_form_is_shown_again_and_saves_the_second_time(olga):
    row = Upstream.objects.create(name="mine", base_url="http://old")
    url = f"/admin/proxy/upstream/{row.pk}/change/"
    form = {
        **UPSTREAM_FORM,
        "seen": seen_version(text_of(olga.get(url))),
        "headers": '{"X-Team": "harbour"}',
    }
    row.base_url = "http://meanwhile"
    row.save()
    page = text_of(olga.post(url, form))
    assert "while you were editing it" in page
    assert 'name="base_url" value="https://openrouter.ai/api/v1"' in page
    assert "{&quot;X-Team&quot;: &quot;harbour&quot;}</textarea>" in page
    assert olga.post(url, {**form, "seen": seen_version(page)}).status_code == 302
    row.refresh_from_db()
    assert (row.base_url, row.headers) == (UPSTREAM_FORM["base_url"], {"X-Team": "harbour"})


@pytest.mark.parametrize("forged", ["-5", "9" * 40, "abc"])
def test_a_forged_version_counts_as_outdated(olga, forged):
    row = Upstream.objects.create(name="mine", base_url="http://old")
    answer = olga.post(f"/admin/proxy/upstream/{row.pk}/change/", {**UPSTREAM_FORM, "seen": forged})
    assert "errornote" in text_of(answer)
    row.refresh_from_db()
    assert row.base_url == "http://old"


def test_save_as_new_is_not_available(olga):
    row = Upstream.objects.create(name="mine", base_url="http://old")
    url, form = f"/admin/proxy/upstream/{row.pk}/change/", {**UPSTREAM_FORM, "name": "other"}
    assert olga.post(url, {**form, "_saveasnew": "1"}).status_code == 404
    assert not Upstream.objects.filter(name="other").exists()
