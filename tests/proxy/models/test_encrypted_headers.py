"""Secret headers are encrypted in the database."""

import importlib
import json

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection

from proxy.configuration.snapshot import load
from proxy.configuration.upstream import read_upstream
from proxy.models import Upstream
from proxy.models.encrypted_headers import EncryptedHeadersField, unreadable_headers
from tests.support.chat import ask, says
from tests.support.stored_exchanges import configure

CANARY = "canary-of-a-secret-header"
HEADERS = {"X-Api-Token": CANARY, "HTTP-Referer": "https://example.org"}


def stored_headers(pk):
    with connection.cursor() as cursor:
        cursor.execute("SELECT headers FROM proxy_upstream WHERE id = %s", [pk])
        headers = cursor.fetchone()[0]
    return headers if isinstance(headers, dict) else json.loads(headers)


@pytest.fixture
def row(db):
    return Upstream.objects.create(name="tenant", base_url="https://a.example.org", headers=HEADERS)


def test_a_secret_header_is_encrypted_in_the_database_and_sent_in_plain_text(row):
    assert stored_headers(row.pk)["X-Api-Token"].startswith("sealed:gAAAA")
    assert stored_headers(row.pk)["HTTP-Referer"] == "https://example.org"
    row.refresh_from_db()
    assert row.headers == HEADERS
    assert ("X-Api-Token", CANARY) in read_upstream(row).headers
    assert CANARY in read_upstream(row).secrets()


def test_saving_and_dumping_keep_headers_encrypted(row, capsys):
    row.refresh_from_db()
    row.active = False
    row.save()
    Upstream.objects.filter(pk=row.pk).update(headers=row.headers)
    row.refresh_from_db()
    assert row.headers == HEADERS
    call_command("dumpdata", "proxy")
    dump = capsys.readouterr().out
    assert "sealed:gAAAA" in dump
    assert CANARY not in dump


def test_a_dump_can_be_loaded_with_its_secrets(row, capsys, tmp_path):
    call_command("dumpdata", "proxy.upstream")
    (tmp_path / "dump.json").write_text(capsys.readouterr().out)
    row.delete()
    call_command("loaddata", str(tmp_path / "dump.json"), verbosity=0)
    assert Upstream.objects.get().headers == HEADERS


def test_headers_encrypted_with_another_key_are_named_and_kept(row, settings):
    """O9: other upstreams keep working."""
    original, settings.SECRET_KEY = settings.SECRET_KEY, "another secret of the site, long enough"
    row.refresh_from_db()
    assert unreadable_headers(row.headers) == ["X-Api-Token"]
    assert "X-Api-Token cannot be decrypted" in read_upstream(row).trouble
    row.save()
    settings.SECRET_KEY = original
    row.refresh_from_db()
    assert row.headers == HEADERS
    assert read_upstream(row).trouble == ""


def test_the_migration_encrypts_existing_headers(row):
    with connection.cursor() as cursor:
        plain = json.dumps(HEADERS)
        cursor.execute("UPDATE proxy_upstream SET headers = %s WHERE id = %s", [plain, row.pk])
    assert stored_headers(row.pk) == HEADERS
    migration = importlib.import_module("proxy.migrations.0010_sealed_headers_and_bounds")
    migration.seal_headers(apps, None)
    assert CANARY not in str(stored_headers(row.pk))
    row.refresh_from_db()
    assert row.headers == HEADERS


def test_non_objects_are_returned_unchanged():
    assert EncryptedHeadersField().get_prep_value(["a"]) == ["a"]
    assert unreadable_headers(["a"]) == []


def test_unreadable_secrets_disable_only_their_upstream(gateway, client, upstream):
    """O9, end to end: a header and a key that were encrypted with another ATHENA_SECRET_KEY."""
    upstream.script("sealed/fine", says("hello"))
    gateway.edit(
        "from django.test import override_settings\n"
        f"u = Upstream(name='foreign', base_url={upstream.url!r})\n"
        "with override_settings(SECRET_KEY='x' * 60):\n"
        "    u.store_key('sk-canary-foreign'); u.save()\n"
        f"h = Upstream(name='foreign-header', base_url={upstream.url!r}, headers={HEADERS!r})\n"
        "with override_settings(SECRET_KEY='x' * 60):\n"
        "    h.save()\n"
        "ModelRoute.objects.create(pattern='sealed/foreign', upstream=u)\n"
        "ModelRoute.objects.create(pattern='sealed/header', upstream=h)"
    )
    for model in ("sealed/foreign", "sealed/header"):
        refused = client.post("/v1/messages", json=ask(model))
        assert refused.status_code == 502
        assert refused.headers["x-athena-error"] == "upstream_misconfigured"
        assert refused.headers["x-should-retry"] == "false"
        assert "cannot be decrypted with the current ATHENA_SECRET_KEY" in refused.text
    assert client.post("/v1/messages", json=ask("sealed/fine")).status_code == 200


@pytest.mark.django_db
def test_a_snapshot_contains_decrypted_headers():
    configure()
    assert "sealed:" not in str([route.upstream.headers for route in load().routes])
