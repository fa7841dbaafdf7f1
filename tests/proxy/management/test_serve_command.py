"""`manage.py serve`: the start message, invalid settings, warnings and file permissions."""

import os
import shutil
import subprocess

import pytest

from tests.support.database import IS_POSTGRES
from tests.support.gateway import Gateway

SHELLS = [["sh", "-ec"], ["bash", "-ec"], ["zsh", "-f", "-i", "-c"], ["fish", "--no-config", "-c"]]


def test_the_start_message_has_what_a_new_user_needs_in_order(demo_gateway):
    lines = [
        f"Athena is listening on {demo_gateway.url}",
        "claude-sonnet   → demo: moonshotai/kimi-k2.5",
        "demo is a built-in script",
        f"{demo_gateway.url}/admin/",
        f"curl {demo_gateway.url}/v1/messages",
        f"export ANTHROPIC_BASE_URL={demo_gateway.url}",
        "export ANTHROPIC_AUTH_TOKEN=",
        "export CLAUDE_CODE_AUTO_MODE_SERVER=0",
        "claude --permission-mode default\n",
    ]
    places = [demo_gateway.log.find(line) for line in lines]
    assert -1 not in places
    assert places == sorted(places)


def test_a_start_with_another_secret_names_the_wrong_variable(tmp_path):
    gateway = Gateway(tmp_path, ATHENA_SECRET_KEY="a secret that is long enough for it all")
    gateway.start()
    gateway.edit(
        "from proxy.security import vault\n"
        "Upstream.objects.create(name='house', base_url='https://house.example',"
        " sealed_key=vault.seal('sk-house-key'))"
    )
    gateway.stop()
    warning = "ATHENA_SECRET_KEY does not decrypt the stored secrets of these upstreams"
    assert warning not in gateway.log
    gateway.environment["ATHENA_SECRET_KEY"] = "another, also long enough for it all"
    gateway.start()
    gateway.stop()
    assert f"{warning}: house." in gateway.log


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


MISSPELT = {
    "athena_port": "Did you mean ATHENA_PORT?",
    "ATHENA_PROT": "Did you mean ATHENA_PORT?",
    "ATHENA_WORKER": "Did you mean ATHENA_WORKERS?",
    "ATHENA_ADMIN_PASWORD": "Did you mean ATHENA_ADMIN_PASSWORD?",
    "ATHENA_MODEL_SONET": "Did you mean ATHENA_MODEL_SONNET?",
    "ATHENA_ZZZ": "no setting of that name. docs/settings.md lists all settings.",
}


def test_misspelt_variables_are_refused_with_the_nearest_names(tmp_path):
    """N8. Only names are printed: a value may be a secret."""
    more = dict.fromkeys(MISSPELT, "canary-value")
    done = Gateway(tmp_path).manage("serve", environment=more)
    assert done.returncode != 0
    for name, hint in MISSPELT.items():
        assert f"{name} is set, but Athena has no setting of that name." in done.stderr
        assert hint in done.stderr
    assert done.stderr.startswith("Athena cannot start: ATHENA_")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "canary-value" not in done.stderr
    assert "listening" not in done.stdout


def test_a_setting_of_the_next_version_is_accepted_with_a_warning(tmp_path):
    """N8. In a rolling upgrade, all nodes may already have the next version's environment."""
    gateway = Gateway(tmp_path, ATHENA_ADMIN_PASSWORD="admin").start()
    gateway.stop()
    assert "Warning: ATHENA_ADMIN_PASSWORD is weak." in gateway.log
    gateway.environment["ATHENA_FROM_NEXT_YEAR"] = "1"
    gateway.start("--no-migrate").stop()
    assert "Warning: ATHENA_FROM_NEXT_YEAR is set, but Athena has no setting" in gateway.log


def test_the_second_start_says_how_to_reset_the_password(tmp_path):
    """N7. The name is the administrator's, whatever the environment says at the second start."""
    gateway = Gateway(tmp_path, ATHENA_ADMIN_USER="olga@example.org", ATHENA_ADMIN_PASSWORD="")
    gateway.start().stop()
    assert "(shown only once)" in gateway.log
    assert "changepassword" not in gateway.log
    gateway.environment["ATHENA_ADMIN_USER"] = "someone-else"
    gateway.start().stop()
    hint = "forgot the password? Run: .venv/bin/python manage.py changepassword olga@example.org"
    assert hint in gateway.log
    assert "someone-else" not in gateway.log


def test_printed_lines_work_in_a_directory_whose_name_has_spaces_and_quotes(tmp_path):
    """N4. Each line is run as a user pastes it, with a curl and a claude that print their arguments.

    An interactive zsh takes comments for arguments.
    """
    gateway = Gateway(tmp_path / 'it\'s a $HOME "dir"', ATHENA_CLIENT_KEY="")
    gateway.data_dir.mkdir(mode=0o755)
    gateway.log_path = tmp_path / "gateway.log"
    (gateway.data_dir / "athena.sqlite3").touch(mode=0o644)
    (gateway.data_dir / "athena.sqlite3").chmod(0o644)
    gateway.start().stop()
    key = (gateway.data_dir / "client_key").read_text()
    lines = gateway.log.splitlines()
    start = next(n for n, line in enumerate(lines) if line.lstrip().startswith("curl "))
    exports = [line for line in lines if line.lstrip().startswith("export ")]
    claude = next(line for line in lines if line.lstrip().startswith("claude "))
    chmod = next(line.partition("Run: ")[2] for line in lines if "Run: chmod" in line)
    values = 'echo "$ANTHROPIC_BASE_URL $ANTHROPIC_AUTH_TOKEN ($ANTHROPIC_API_KEY)"'
    script = "\n".join([*lines[start : start + 2], *exports, claude, values, chmod])
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("curl", "claude"):
        (programs / name).write_text("#!/bin/sh\nprintf '%s\\n' \"$@\" end\n")
        (programs / name).chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": "sk-ant-of-the-user",
    }
    for shell in SHELLS:
        if shutil.which(shell[0]) is None:
            continue
        done = subprocess.run([*shell, script], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (shell, done.stderr)
        assert f"x-api-key: {key}\n" in done.stdout, (shell, done.stderr)
        assert f"--permission-mode\ndefault\nend\n{gateway.url} {key} ()\n" in done.stdout, shell
    if not IS_POSTGRES:
        assert (gateway.data_dir / "athena.sqlite3").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", [["key", "list"], ["token", "list"], ["config", "export"]])
def test_a_command_without_a_database_reports_it_in_one_line(command, tmp_path):
    gateway = Gateway(tmp_path, DATABASE_URL="postgres://me:canary-password@127.0.0.1:1/none")
    done = gateway.manage(*command)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "he database cannot be used: " in done.stderr
    assert "canary" not in done.stderr
