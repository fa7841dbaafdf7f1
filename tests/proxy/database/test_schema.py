"""Tables of another version: refused in one line, and never in the way of the version before."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connection, models
from django.db.migrations import operations as ops
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState
from django.db.models import NOT_PROVIDED

from tests.support.database import empty_database_url, of_postgres
from tests.support.gateway import Gateway

RECORD = (
    "from django.db import connection\n"
    "from django.db.migrations.recorder import MigrationRecorder\n"
    "MigrationRecorder(connection).record_{}('proxy', {!r})"
)
LAST = max(name for app, name in MigrationLoader(None).disk_migrations if app == "proxy")


def record(gateway, what, name):
    """Say in the database that a migration was or was not made."""
    code = RECORD.format(what, name)
    assert gateway.manage("shell", "--no-imports", "-c", code).returncode == 0


def refusal(done):
    """The one line with which a start was refused."""
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


def test_a_database_of_a_newer_version_is_refused_unless_its_tables_are_left_alone(migrated):
    record(migrated, "applied", "9999_next")
    line = refusal(migrated.manage("serve"))
    assert "has migrations of a newer version (proxy.9999_next). Start that version" in line
    assert "migrations of a newer Athena (proxy.9999_next)" in migrated.manage("doctor").stdout
    # The way back from an upgrade: the next version has taken nothing away.
    migrated.start("--no-migrate")
    migrated.stop()
    assert (
        "migrations of a newer version (proxy.9999_next); this version leaves them" in migrated.log
    )


def test_missing_migrations_are_named_where_they_may_not_be_made(migrated):
    record(migrated, "unapplied", LAST)
    line = refusal(migrated.manage("serve", "--no-migrate"))
    assert f"migrations are missing (proxy.{LAST}). Run `manage.py migrate`" in line


def test_an_empty_database_is_refused_where_nothing_may_be_made(tmp_path):
    gateway = Gateway(tmp_path, DATABASE_URL=empty_database_url(tmp_path))
    assert "proxy.0001_initial" in refusal(gateway.manage("serve", "--no-migrate"))


def test_a_file_that_was_damaged_is_refused_in_one_line(tmp_path):
    path = tmp_path / "damaged.sqlite3"
    gateway = Gateway(tmp_path, DATABASE_URL=f"sqlite:///{path}")
    assert gateway.manage("migrate").returncode == 0
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    assert f"the database {path} cannot be used" in refusal(gateway.manage("serve"))


@of_postgres
def test_a_database_that_the_server_does_not_have_is_refused_in_one_line(tmp_path):
    url = f"{Gateway(tmp_path).environment['DATABASE_URL'].rpartition('/')[0]}/nothing"
    line = refusal(Gateway(tmp_path, DATABASE_URL=url).manage("serve"))
    assert "the database nothing cannot be used" in line


@of_postgres
def test_a_migration_gives_up_rather_than_stop_the_traffic(tmp_path):
    gateway = Gateway(tmp_path)
    with psycopg.connect(gateway.environment["DATABASE_URL"]) as reader:
        reader.execute("LOCK TABLE django_session IN ACCESS SHARE MODE")
        began = time.monotonic()
        line = refusal(gateway.manage("migrate", "sessions", "zero"))
        assert "within 3 s, and was given up so that the traffic goes on" in line
        assert time.monotonic() - began > 3
    # Nobody has to clear up after it.
    assert gateway.manage("migrate", "sessions", "zero").returncode == 0
    (row,) = gateway.rows("SELECT count(*) AS n FROM django_migrations WHERE app = 'sessions'")
    assert row["n"] == 0


@of_postgres
def test_nodes_that_start_at_once_on_an_empty_database_all_start(tmp_path):
    url = empty_database_url(tmp_path)
    secret = {"ATHENA_SECRET_KEY": "of all nodes, and quite long enough"}
    nodes = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        nodes.append(Gateway(tmp_path / name, DATABASE_URL=url, **secret))
    with ThreadPoolExecutor() as pool:
        started = list(pool.map(Gateway.start, nodes))
    assert [node.stop() for node in started] == [0, 0, 0]
    assert len(nodes[0].rows("SELECT * FROM proxy_clientkey")) == 1


# Migrations up to here are the first version's. Those that come later run beside the version before.
FIRST_VERSION = "0011"
# Migrations that take away what the version before them had already ceased to use, each with the
# version that ceased.
# Next release: remove the model Standing and Transcript.standing with its index. This release does
# not write them, and deletes the rows of Standing that no transcript names.
CONTRACTIONS: dict[str, str] = {}


def column_type(field):
    """The type of a column; for a reference the other table, as no table is loaded here."""
    return field.remote_field.model if field.is_relation else field.db_type(connection)


def trouble(operation, before, after):
    """Why the version before could not go on after an operation; empty if it could."""
    match operation:
        case ops.AddField(field=field):
            if not (field.null or field.many_to_many or field.db_default is not NOT_PROVIDED):
                return "it would insert rows without the column: null=True or a db_default"
        case ops.AlterField(model_name_lower=model, name=name):
            old, new = (state.models["proxy", model].fields[name] for state in (before, after))
            if old.null and not new.null:
                return "it may insert null"
            if column_type(old) != column_type(new):
                return "it knows another type of column"
        case (
            ops.RemoveField()
            | ops.RenameField()
            | ops.DeleteModel()
            | ops.RenameModel()
            | ops.AlterModelTable()
        ):
            return (
                "it still uses what is taken away: cease to use it first, remove it a version later"
            )
        case ops.AddConstraint() | ops.AlterUniqueTogether():
            return "it may write rows that the constraint refuses"
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


def test_every_migration_leaves_the_version_before_it_running():
    for name, operation, before, after in later_operations():
        assert not trouble(operation, before, after), f"{name}: {operation.describe()}"


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
def test_what_the_version_before_could_not_bear_is_refused(operation, word):
    before = state_of(size=models.IntegerField(null=True))
    after = before.clone()
    operation.state_forwards("proxy", after)
    found = trouble(operation, before, after)
    assert (word in found) if word else not found


@pytest.mark.django_db
def test_no_index_of_exchanges_is_the_beginning_of_another():
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "proxy_exchange").values()
    indexes = [tuple(index["columns"]) for index in found if index["index"] or index["unique"]]
    assert ("key_id", "id") in indexes, "it is what the list of a key's exchanges needs"
    assert ("group_id", "id") in indexes
    covered = [one for one in indexes for other in indexes if one == other[: len(one)] != other]
    assert [one for one in covered if one != ("id",)] == []
