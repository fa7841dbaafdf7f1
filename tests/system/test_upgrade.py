"""A database of the version before is migrated, and keeps every row."""

import pytest

from tests.support.database import IS_POSTGRES, empty_database_url
from tests.support.gateway import Gateway
from tests.support.version_before import DUMP, LAST_MIGRATION, load_dump


def run(gateway, *arguments):
    done = gateway.manage(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def call(gateway, function):
    code = f"from tests.support.version_before import {function}; {function}()"
    return run(gateway, "shell", "--no-imports", "-c", code)


@pytest.fixture
def gateway_before(tmp_path):
    """A gateway whose database was made by the version before and has a row in every table."""
    gateway = Gateway(tmp_path, DATABASE_URL=empty_database_url(tmp_path))
    if IS_POSTGRES:
        run(gateway, "migrate", "proxy", LAST_MIGRATION)
        call(gateway, "copy_rows")
    else:
        load_dump(tmp_path / "athena.sqlite3")
    return gateway


def test_migrating_a_database_of_the_version_before_keeps_every_row(gateway_before):
    run(gateway_before, "migrate")
    assert call(gateway_before, "print_differences") == ""
    gateway_before.start()
    assert gateway_before.stop() == 0


def test_a_lost_row_and_a_changed_value_are_found(gateway_before):
    """The comparison itself can fail."""
    run(gateway_before, "migrate")
    code = (
        "from proxy.models import Comment, FormatSettings\n"
        "Comment.objects.all().delete(); FormatSettings.objects.update(buffer_limit=5000)"
    )
    run(gateway_before, "shell", "--no-imports", "-c", code)
    found = call(gateway_before, "print_differences").splitlines()
    assert "proxy.Comment 1: the row is gone" in found
    assert "proxy.FormatSettings 1: buffer_limit has changed" in found


def test_the_dump_has_a_row_in_every_table_of_the_gateway():
    text = DUMP.read_text()
    tables = {
        line.split('"')[1] for line in text.splitlines() if line.startswith('CREATE TABLE "proxy_')
    }
    assert len(tables) > 20
    assert not [table for table in tables if f'INSERT INTO "{table}"' not in text]


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ([32, 32], None),
        ([32, 33, 32], 32),  # set to 33, then back
        ([32, 8], 8),
    ],
)
def test_only_the_default_limit_of_open_requests_per_key_is_removed(gateway_before, values, limit):
    """Fault C11: 32 was the default, for a team's shared key too."""
    edit = (
        "from proxy.models import GatewaySettings\n"
        "records = GatewaySettings.history.model.objects\n"
        f"records.filter(history_id__gt={len(values)}).delete()\n"
        f"for number, value in enumerate({values}, 1):\n"
        "    records.filter(history_id=number).update(key_max_streams=value)\n"
        "    GatewaySettings.objects.update(key_max_streams=value)"
    )
    run(gateway_before, "shell", "--no-imports", "-c", edit)
    run(gateway_before, "migrate")
    (row,) = gateway_before.rows("SELECT key_max_streams FROM proxy_gatewaysettings")
    records = gateway_before.rows(
        "SELECT key_max_streams, version FROM proxy_historicalgatewaysettings"
        " ORDER BY history_id DESC"
    )
    (version,) = gateway_before.rows("SELECT number FROM proxy_configurationversion")
    assert row["key_max_streams"] == records[0]["key_max_streams"] == limit
    assert len(records) == len(values) + (limit is None)
    assert limit or records[0]["version"] == version["number"]
