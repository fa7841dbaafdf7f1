"""A database of another version is rejected in one line; migrations keep the previous one running."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connection, models
from django.db.migrations import operations as ops
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState
from django.db.models import NOT_PROVIDED

from tests.support.database import empty_database_url, last_migration, of_postgres
from tests.support.gateway import Gateway

RECORD = (
    "from django.db import connection\n"
    "from django.db.migrations.recorder import MigrationRecorder\n"
    "MigrationRecorder(connection).record_{}('proxy', {!r})"
)


def record(gateway, state, name):
    """Record in the database that a migration is `applied` or `unapplied`."""
    code = RECORD.format(state, name)
    assert gateway.manage("shell", "--no-imports", "-c", code).returncode == 0


def error_line(done):
    """Return the only line that a failed command wrote."""
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "listens" not in done.stdout
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture
def migrated(tmp_path):
    gateway = Gateway(tmp_path)
    assert gateway.manage("migrate").returncode == 0
    return gateway


def test_a_database_of_a_newer_version_is_rejected_unless_migrations_are_disabled(migrated):
    record(migrated, "applied", "9999_next")
    line = error_line(migrated.manage("serve"))
    assert "has migrations of a newer version (proxy.9999_next). Start that version" in line
    assert "migrations of a newer Athena (proxy.9999_next)" in migrated.manage("doctor").stdout
    # Rolling back an upgrade works, because the next version has removed nothing.
    migrated.start("--no-migrate")
    migrated.stop()
    assert (
        "migrations of a newer version (proxy.9999_next); this version leaves them" in migrated.log
    )


def test_missing_migrations_are_named_if_migrations_are_disabled(migrated):
    record(migrated, "unapplied", last_migration())
    line = error_line(migrated.manage("serve", "--no-migrate"))
    assert f"migrations are missing (proxy.{last_migration()}). Run `manage.py migrate`" in line


def test_an_empty_database_is_rejected_if_migrations_are_disabled(tmp_path):
    gateway = Gateway(tmp_path, DATABASE_URL=empty_database_url(tmp_path))
    assert "proxy.0001_initial" in error_line(gateway.manage("serve", "--no-migrate"))


def test_a_damaged_database_file_is_rejected_in_one_line(tmp_path):
    path = tmp_path / "damaged.sqlite3"
    gateway = Gateway(tmp_path, DATABASE_URL=f"sqlite:///{path}")
    assert gateway.manage("migrate").returncode == 0
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    assert f"the database {path} cannot be used" in error_line(gateway.manage("serve"))


@of_postgres
def test_a_database_that_does_not_exist_is_rejected_in_one_line(tmp_path):
    url = f"{Gateway(tmp_path).environment['DATABASE_URL'].rpartition('/')[0]}/nothing"
    line = error_line(Gateway(tmp_path, DATABASE_URL=url).manage("serve"))
    assert "the database nothing cannot be used" in line


@of_postgres
def test_a_migration_gives_up_rather_than_block_traffic(tmp_path):
    gateway = Gateway(tmp_path)
    with psycopg.connect(gateway.environment["DATABASE_URL"]) as reader:
        reader.execute("LOCK TABLE django_session IN ACCESS SHARE MODE")
        started_at = time.monotonic()
        line = error_line(gateway.manage("migrate", "sessions", "zero"))
        assert "within 3 s and was cancelled, so that traffic is not blocked" in line
        assert time.monotonic() - started_at > 3
    # A second attempt needs no cleanup.
    assert gateway.manage("migrate", "sessions", "zero").returncode == 0
    (row,) = gateway.rows("SELECT count(*) AS n FROM django_migrations WHERE app = 'sessions'")
    assert row["n"] == 0


@of_postgres
def test_nodes_can_start_at_the_same_time_on_an_empty_database(tmp_path):
    url = empty_database_url(tmp_path)
    secret = {"ATHENA_SECRET_KEY": "shared by all nodes, and long enough"}
    nodes = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        nodes.append(Gateway(tmp_path / name, DATABASE_URL=url, **secret))
    with ThreadPoolExecutor() as pool:
        started = list(pool.map(Gateway.start, nodes))
    assert [node.stop() for node in started] == [0, 0, 0]
    assert len(nodes[0].rows("SELECT * FROM proxy_clientkey")) == 1


# Last migration of the first version. Later ones run beside the previous version.
FIRST_VERSION = "0011"
# Migrations that remove what the previous version no longer uses, each with the version that
# stopped using it.
# Next release: remove the model Standing and Transcript.standing with its index. This release does
# not write them, and deletes the rows of Standing that no transcript names.
CONTRACTIONS: dict[str, str] = {}


def column_type(field):
    """Return the type of a column, or the target of a relation: no model is loaded here."""
    return field.remote_field.model if field.is_relation else field.db_type(connection)


def incompatibility(operation, before, after):
    """Say why an operation would break the previous version; empty if it would not."""
    match operation:
        case ops.AddField(field=field):
            if not (field.null or field.many_to_many or field.db_default is not NOT_PROVIDED):
                return "it inserts rows without the column: add null=True or a db_default"
        case ops.AlterField(model_name_lower=model, name=name):
            old, new = (state.models["proxy", model].fields[name] for state in (before, after))
            if old.null and not new.null:
                return "it may insert null"
            if column_type(old) != column_type(new):
                return "it expects another type of column"
        case (
            ops.RemoveField()
            | ops.RenameField()
            | ops.DeleteModel()
            | ops.RenameModel()
            | ops.AlterModelTable()
        ):
            return "it still uses this: stop using it first, and remove it a version later"
        case ops.AddConstraint() | ops.AlterUniqueTogether():
            return "it may write rows that violate the constraint"
    return ""


def later_operations():
    loader = MigrationLoader(None)
    names = sorted(name for app, name in loader.disk_migrations if app == "proxy")
    state = ProjectState()
    for name in names:
        migration = loader.disk_migrations["proxy", name]
        state = loader.project_state(("proxy", name), at_end=False)
        for operation in migration.operations:
            after = state.clone()
            operation.state_forwards("proxy", after)
            if name[:4] > FIRST_VERSION and name not in CONTRACTIONS:
                yield name, operation, state, after
            state = after


def test_every_migration_is_compatible_with_the_previous_version():
    for name, operation, before, after in later_operations():
        assert not incompatibility(operation, before, after), f"{name}: {operation.describe()}"


def state_of(**fields):
    state = ProjectState()
    state.add_model(
        ModelState("proxy", "Thing", [("id", models.AutoField(primary_key=True)), *fields.items()])
    )
    return state


@pytest.mark.parametrize(
    ("operation", "word"),
    [
        (ops.AddField("Thing", "new", models.IntegerField(default=3)), "db_default"),
        (ops.RemoveField("Thing", "size"), "a version later"),
        (ops.RenameField("Thing", "size", "extent"), "a version later"),
        (ops.DeleteModel("Thing"), "a version later"),
        (ops.AlterField("Thing", "size", models.IntegerField()), "null"),
        (ops.AlterField("Thing", "size", models.CharField(max_length=9, null=True)), "type"),
        (
            ops.AddConstraint(
                "Thing", models.CheckConstraint(condition=models.Q(size=1), name="c")
            ),
            "constraint",
        ),
        (ops.AddField("Thing", "new", models.IntegerField(null=True)), ""),
        (ops.AddField("Thing", "new", models.IntegerField(db_default=3)), ""),
        (ops.AlterField("Thing", "size", models.IntegerField(null=True, help_text="?")), ""),
        (ops.AddIndex("Thing", models.Index(fields=["size"], name="i")), ""),
        (ops.CreateModel("Other", [("id", models.AutoField(primary_key=True))]), ""),
    ],
    ids=lambda value: value.describe() if isinstance(value, ops.base.Operation) else value,
)
def test_operations_that_break_the_previous_version_are_found(operation, word):
    before = state_of(size=models.IntegerField(null=True))
    after = before.clone()
    operation.state_forwards("proxy", after)
    reason = incompatibility(operation, before, after)
    assert (word in reason) if word else not reason


@pytest.mark.django_db
def test_no_index_of_exchanges_is_a_prefix_of_another():
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, "proxy_exchange").values()
    indexes = [
        tuple(index["columns"]) for index in constraints if index["index"] or index["unique"]
    ]
    assert ("key_id", "id") in indexes, "the list of a key's exchanges needs it"
    assert ("group_id", "id") in indexes
    prefixes = [one for one in indexes for other in indexes if one == other[: len(one)] != other]
    assert [one for one in prefixes if one != ("id",)] == []
