"""`manage.py key`: creates, lists and revokes client keys."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from proxy.models import (
    ClientKey,
)
from proxy.models.keys import digest_of
from tests.support.commands import run_command
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    monkeypatch.delenv("HOUSE_API_KEY", raising=False)
    configure()


def test_key_create_prints_only_the_key():
    User.objects.create(username="ada")
    arguments = ("--owner", "ada", "--days", 30, "--models", "claude-*", "qwen/*")
    limits = ("--requests-per-minute", 60, "--concurrent-requests", 4)
    printed, hint, failed = run_command("key", "create", "ada's laptop", *arguments, *limits)
    assert not failed
    assert "cannot be shown again" in hint
    row = ClientKey.objects.get(label="ada's laptop")
    assert digest_of(printed.strip()) == row.digest
    assert (row.owner.username, row.allowed_models) == ("ada", ["claude-*", "qwen/*"])
    assert (row.requests_per_minute, row.max_streams) == (60, 4)
    assert timedelta(days=29) < row.expires_at - timezone.now() <= timedelta(days=30)
    assert row.history.get().history_change_reason == "key create"
    listed, _, _ = run_command("key", "list")
    assert printed.strip() not in listed
    assert f"{row.prefix}…  active   expires {row.expires_at:%Y-%m-%d}  never used  ada" in listed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x" * 101], "label: Ensure this value has at most 100 characters"),
        ([""], "label: This field cannot be blank."),
        (["x", "--owner", "stranger"], "no user is named 'stranger'"),
        (["x", "--days", "0"], "--days must be from 1 to 3650"),
        (["x", "--models", "a b"], "'a b' is not a valid pattern"),
        (["x", "--at-once", "0"], "--concurrent-requests: Ensure"),
        (["x", "--requests-per-minute", "-1"], "--requests-per-minute: Ensure"),
    ],
)
def test_key_create_rejects_invalid_options(arguments, message):
    before = ClientKey.objects.count()
    assert message in run_command("key", "create", *arguments)[2]
    assert ClientKey.objects.count() == before


def test_keys_can_be_listed_as_json():
    printed, _, _ = run_command("key", "create", "ci", "--json")
    created = json.loads(printed)
    assert digest_of(created.pop("key")) == ClientKey.objects.get(label="ci").digest
    ClientKey.objects.filter(label="first").update(
        expires_at=timezone.now(), last_used_at=timezone.now()
    )
    listed = json.loads(run_command("key", "list", "--json")[0])
    assert created in listed
    assert {row["label"]: row["state"] for row in listed} == {"ci": "active", "first": "expired"}
    assert not {"digest", "key"} & listed[0].keys()


def test_a_key_is_revoked_by_id_or_prefix():
    for label in ("one", "two"):
        run_command("key", "create", label)
    one, two = (ClientKey.objects.get(label=label) for label in ("one", "two"))
    assert run_command("key", "revoke", one.pk)[0] == f"Revoked {one}.\n"
    ClientKey.objects.filter(pk=two.pk).update(prefix="sk-of-two")
    assert run_command("key", "revoke", "sk-of-two")[0].startswith("Revoked two")
    one.refresh_from_db()
    assert one.revoked_at is not None
    assert one.history.first().history_change_reason == "key revoke"
    assert run_command("key", "revoke", one.pk)[0] == "This key was already revoked.\n"
    assert (
        run_command("key", "revoke", "sk-unknown")[2] == "no key has the id or prefix 'sk-unknown'"
    )
    ClientKey.objects.update(prefix="sk-same")
    assert "Use an id instead" in run_command("key", "revoke", "sk-same")[2]
