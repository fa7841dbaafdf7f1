"""N13: the last configuration on disk."""

import asyncio
import os
import time

import pytest
from django.db import OperationalError

from proxy.configuration import live, saved_rows
from proxy.configuration.live import Configuration
from proxy.configuration.snapshot import load, read_rows, snapshot_of
from proxy.errors import GatewayError
from proxy.models import ClientKey, FormatOverride, ModelRoute, Upstream
from tests.support.stored_exchanges import configure

pytestmark = pytest.mark.django_db
KEY, HEADER = "sk-canary-of-a-stored-key-1", "canary-of-a-stored-header-2"


@pytest.fixture(autouse=True)
def file(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    monkeypatch.setenv("HOUSE_API_KEY", "sk-canary-of-the-environment")
    configure()
    stored = Upstream(name="stored", base_url="https://a.example/v1", headers={"X-Token": HEADER})
    stored.store_key(KEY)
    stored.save()
    named = Upstream.objects.create(
        name="named", base_url="https://b.example/v1", key_variable="HOUSE_API_KEY"
    )
    broken = Upstream.objects.create(name="broken", base_url="not a url")
    for pattern, upstream in {"a*": stored, "b": named, "c": broken}.items():
        ModelRoute.objects.create(pattern=pattern, upstream=upstream)
    FormatOverride.objects.create(pattern="a*", format="kimi")
    key = ClientKey(label="ci", allowed_models=["a*"])
    key.adopt("sk-athena-of-the-file")
    key.save()
    saved_rows.save(read_rows())
    return tmp_path / "configuration"


def test_the_file_gives_the_same_snapshot(file):
    rows, age = saved_rows.read()
    assert snapshot_of(rows) == load()
    assert age < 60


def test_the_file_is_private_and_has_no_secret(file):
    assert file.stat().st_mode & 0o777 == 0o600
    content = file.read_bytes()
    for text in (KEY, HEADER, "sk-canary-of-the-environment", "a.example", "kimi", "ci"):
        assert text.encode() not in content.partition(b"\n")[2] or len(text) < 5


def test_a_file_that_others_could_have_written_is_not_read(file):
    file.chmod(0o640)
    assert saved_rows.read() is None
    file.chmod(0o600)
    assert saved_rows.read() is not None
    target = file.rename(file.with_name("elsewhere"))
    file.symlink_to(target)
    assert saved_rows.read() is None


def test_a_file_of_another_secret_or_database_is_not_read(file, settings, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(settings.DATABASES["default"], "HOST", "another")
        assert saved_rows.read() is None
    assert saved_rows.read() is not None
    settings.SECRET_KEY = "another secret that is long enough for every use of it"
    assert saved_rows.read() is None


def test_a_file_of_other_tables_is_not_read(file, monkeypatch):
    monkeypatch.setattr(ModelRoute._meta, "concrete_fields", ModelRoute._meta.concrete_fields[:-1])
    assert saved_rows.read() is None


@pytest.mark.parametrize("content", [b"", b"7", b"7\n", b"\n\n", b"\xff\n\xff", b"7\ngAAAAA"])
def test_a_damaged_file_is_not_read(file, content):
    file.write_bytes(content)
    assert saved_rows.read() is None


def test_the_version_in_plain_text_cannot_be_changed(file):
    version, _, sealed = file.read_bytes().partition(b"\n")
    file.write_bytes(b"%d\n" % (int(version) + 1) + sealed)
    assert saved_rows.read() is None


def test_a_confirmation_renews_the_time_of_its_own_version_only(file):
    version = load().version
    os.utime(file, (1, 1))
    assert not saved_rows.confirm(version + 1)
    assert file.stat().st_mtime == 1
    assert saved_rows.confirm(version)
    assert file.stat().st_mtime > 1
    file.unlink()
    assert not saved_rows.confirm(version)


@pytest.mark.parametrize(("age", "is_used"), [(0, True), (599, True), (601, False)])
def test_a_start_without_the_database_uses_a_file_of_the_last_minutes(
    file, monkeypatch, age, is_used
):
    def fail():
        raise OperationalError

    monkeypatch.setattr(live, "read_version", fail)
    monkeypatch.setattr(live, "read_rows", fail)
    monkeypatch.setattr(live, "renew_connection", lambda: None)
    os.utime(file, (time.time() - age,) * 2)
    configuration = Configuration()
    asyncio.run(configuration.start())
    assert not configuration.is_fresh
    assert configuration.is_outdated is not is_used
    if is_used:
        assert len(configuration.current.routes) == len(load().routes)
    else:
        with pytest.raises(GatewayError):
            _ = configuration.current
