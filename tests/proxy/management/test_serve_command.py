"""`manage.py serve`: the start message, invalid settings, warnings and file permissions."""

import pytest

from tests.support.database import IS_POSTGRES
from tests.support.gateway import Gateway


def test_the_start_message_has_what_a_new_user_needs_in_order(demo_gateway):
    lines = [
        f"Athena is listening on {demo_gateway.url}",
        "claude-sonnet   → demo: moonshotai/kimi-k2.5",
        "demo is a built-in script",
        f"{demo_gateway.url}/admin/",
        f"curl {demo_gateway.url}/v1/messages",
        f"export ANTHROPIC_BASE_URL={demo_gateway.url}",
        "export ANTHROPIC_AUTH_TOKEN=",
        "claude --model NAME",
    ]
    places = [demo_gateway.log.find(line) for line in lines]
    assert -1 not in places
    assert places == sorted(places)


def test_a_start_with_another_secret_names_the_wrong_variable(tmp_path):
    gateway = Gateway(tmp_path)
    for secret in (
        "a secret that is long enough for it all",
        "another, also long enough for it all",
    ):
        gateway.environment["ATHENA_SECRET_KEY"] = secret
        warning = "ATHENA_SECRET_KEY does not decrypt the stored secrets of these upstreams"
        assert warning not in gateway.log
        gateway.start()
        gateway.stop()
    assert f"{warning}: demo." in gateway.log


@pytest.fixture(scope="module")
def node_without_key(tmp_path_factory):
    """A node that did not create the first key, and the file modes after the first start."""
    path = tmp_path_factory.mktemp("node_without_key")
    gateway = Gateway(path / "data", ATHENA_CLIENT_KEY="")
    gateway.log_path = path / "gateway.log"
    gateway.start()
    paths = [gateway.data_dir, *gateway.data_dir.rglob("*")]
    modes = {file.relative_to(path).as_posix(): file.stat().st_mode & 0o777 for file in paths}
    gateway.stop()
    assert "other users of this machine" not in gateway.log
    gateway.log_path.unlink()
    (gateway.data_dir / "client_key").unlink()
    # As older versions created them.
    gateway.data_dir.chmod(0o755)
    (gateway.data_dir / "athena.sqlite3").touch()
    (gateway.data_dir / "athena.sqlite3").chmod(0o644)
    yield gateway.start(), modes
    gateway.stop()


def test_stored_files_are_not_readable_by_other_users(node_without_key):
    gateway, modes = node_without_key
    assert {"data/secret_key", "data/client_key", "data/journal"} <= modes.keys()
    if not IS_POSTGRES:
        assert {"data/athena.sqlite3", "data/athena.sqlite3-wal"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    path = gateway.data_dir / "athena.sqlite3"
    assert (
        f"other users of this machine can read the database. Run: chmod 600 {path}*" in gateway.log
    )


def test_a_node_without_its_own_key_starts_and_tells_how_to_make_one(node_without_key):
    gateway, _ = node_without_key
    assert "$ATHENA_CLIENT_KEY" not in gateway.log
    assert ".venv/bin/python manage.py key create" in gateway.log
    done = gateway.manage("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note   client key: no key is stored on this machine" in done.stdout
    assert "ERROR" not in done.stdout


NONSENSE = {
    "ATHENA_PORT": "http",
    "ATHENA_WORKERS": "0",
    "ATHENA_TRANSPORT": "pigeon",
    "ATHENA_LOG_LEVEL": "LOUD",
    "ATHENA_SECRET_KEY": "short",
    "ATHENA_CLIENT_KEY": "short",
    "ATHENA_MODEL_OPUS": "two words",
    "ATHENA_HOST": "no-such-host.invalid",
    "ATHENA_DATA_DIR": "/dev/null/nowhere",
    "OPENROUTER_BASE_URL": "nonsense",
    "OPENROUTER_API_KEY": "two words",
    "DATABASE_URL": "mysql://localhost/x",
}


@pytest.mark.parametrize("name", NONSENSE)
def test_an_invalid_variable_is_named_in_one_line(tmp_path, name):
    more = {"OPENROUTER_API_KEY": "x"} | {name: NONSENSE[name]}
    done = Gateway(tmp_path).manage("serve", environment=more)
    assert done.returncode != 0
    assert name in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "listening" not in done.stdout


def test_a_port_in_use_is_reported_first(demo_gateway, tmp_path):
    done = Gateway(tmp_path).manage("serve", environment={"ATHENA_PORT": str(demo_gateway.port)})
    assert done.returncode != 0
    assert "Address already in use. Set ATHENA_HOST or ATHENA_PORT to use another" in done.stderr
    assert "listening" not in done.stdout


def test_an_unusable_database_is_named(tmp_path):
    path = tmp_path / "broken.sqlite3"
    path.write_bytes(b"this is not a database, but long enough to look like one" * 100)
    done = Gateway(tmp_path).manage("serve", environment={"DATABASE_URL": f"sqlite:///{path}"})
    assert f"the database {path} cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_misspelled_variable_is_reported(tmp_path):
    gateway = Gateway(tmp_path, ATHENA_PROT="9", ATHENA_ADMIN_PASSWORD="admin").start()
    gateway.stop()
    assert "Warning: ATHENA_PROT is set, but Athena has no setting of that name." in gateway.log
    assert "Warning: ATHENA_ADMIN_PASSWORD is weak." in gateway.log


@pytest.mark.parametrize("command", [["key", "list"], ["token", "list"], ["config", "export"]])
def test_a_command_without_a_database_reports_it_in_one_line(command, tmp_path):
    gateway = Gateway(tmp_path, DATABASE_URL="postgres://me:canary-password@127.0.0.1:1/none")
    done = gateway.manage(*command)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "he database cannot be used: " in done.stderr
    assert "canary" not in done.stderr
