"""A snapshot is consistent, and is loaded again when the version differs."""

import threading

import pytest
from django.db import connection

from proxy.configuration.live import Configuration
from proxy.configuration.snapshot import load
from proxy.models import ConfigurationVersion, FormatOverride
from tests.support.database import of_postgres
from tests.support.stored_exchanges import configure


@of_postgres
@pytest.mark.django_db(transaction=True)
def test_a_snapshot_ignores_commits_during_its_loading():
    configure()
    version = ConfigurationVersion.objects.get().number

    def change():
        FormatOverride.objects.create(pattern="torn/*", format="kimi")
        connection.close()

    def commit_during_load(execute, sql, params, many, context):
        found = execute(sql, params, many, context)
        if "configurationversion" in sql:
            other = threading.Thread(target=change)
            other.start()
            other.join()
        return found

    with connection.execute_wrapper(commit_during_load):
        snapshot = load()
    assert (snapshot.version, snapshot.overrides) == (version, ())
    snapshot = load()
    assert snapshot.version > version
    assert [override.pattern for override in snapshot.overrides] == ["torn/*"]


@pytest.mark.django_db(transaction=True)
def test_a_lower_version_is_loaded_too():
    configure()
    FormatOverride.objects.create(pattern="lost/*", format="kimi")
    configuration = Configuration()
    configuration._refresh()
    assert configuration.current.overrides
    # Like a restored backup: both the rows and the version are older.
    FormatOverride.objects.all()._raw_delete("default")
    ConfigurationVersion.objects.update(number=1)
    configuration._refresh()
    assert configuration.version == 1
    assert configuration.current.overrides == ()
