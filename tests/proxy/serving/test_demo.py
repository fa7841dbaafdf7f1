"""The demo upstream works without any API key, over real HTTP."""

import httpx
import pytest

from proxy.serving.demo import MODELS, answer
from tests.support.chat import TOOLS, ask, read
from tests.support.database import IS_POSTGRES, empty_database_url
from tests.support.gateway import KEY, Gateway


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    gateway = Gateway(tmp_path_factory.mktemp("demo")).start()
    yield gateway
    gateway.stop()


@pytest.mark.parametrize("name", [*MODELS, "claude-opus-4-8", "claude-sonnet-4-5", "some/standard"])
@pytest.mark.parametrize("streaming", [True, False])
def test_the_demo_model_calls_a_tool_in_its_own_format(demo, name, streaming):
    body = ask(name, "How is the tide in Moss?", tools=TOOLS, stream=streaming)
    with demo.client() as client:
        response = client.post("/v1/messages", json=body)
    if streaming:
        seen = read(response)
        assert seen.calls == [{"name": "get_tide", "arguments": {"harbor": "Moss"}}]
        assert "<" not in seen.text
    else:
        call = response.json()["content"][-1]
        assert (call["type"], call["input"]) == ("tool_use", {"harbor": "Moss"})


def test_a_tool_result_is_answered_with_text(demo):
    with demo.client() as client:
        body = ask("claude-sonnet-4-5", "How is the tide in Moss?", tools=TOOLS)
        first = client.post("/v1/messages", json=body).json()
        result = {
            "type": "tool_result",
            "tool_use_id": first["content"][-1]["id"],
            "content": "low",
        }
        body["messages"] += [
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [result]},
        ]
        second = client.post("/v1/messages", json=body).json()
    assert second["content"][0]["text"] == "The tool answered: low"
    assert second["stop_reason"] == "end_turn"


def test_without_tools_the_demo_model_explains_itself(demo):
    with demo.client() as client:
        answer = client.post("/v1/messages", json=ask("claude-sonnet-4-5")).json()
    assert "demo model" in answer["content"][0]["text"]


def test_the_start_message_shows_the_routes_and_how_to_use_them(demo):
    assert "claude-sonnet   → demo: moonshotai/kimi-k2.5" in demo.log
    assert "demo is a built-in script" in demo.log
    assert f"export ANTHROPIC_BASE_URL={demo.url}" in demo.log
    assert "ANTHROPIC_AUTH_TOKEN" in demo.log
    assert f"{demo.url}/admin/" in demo.log


def test_the_demo_upstream_refuses_other_callers(demo):
    url = f"{demo.url}/demo/v1/chat/completions"
    assert httpx.post(url, json={}, headers={"authorization": f"Bearer {KEY}"}).status_code == 401


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


def test_doctor_reports_a_healthy_gateway(demo):
    done = demo.manage("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No problems found." in done.stdout
    assert "the model called report_health" in done.stdout


def test_doctor_reports_what_is_wrong(tmp_path):
    gateway = Gateway(tmp_path, DATABASE_URL=empty_database_url(tmp_path))
    done = gateway.manage("doctor")
    assert done.returncode != 0
    assert "migrations are missing. Run `manage.py migrate`." in done.stdout
    assert gateway.manage("migrate").returncode == 0
    assert "Start the gateway once" in gateway.manage("doctor").stdout
    gateway.start()
    gateway.stop()
    assert "Start the gateway with `make run`." in gateway.manage("doctor").stdout


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A node that did not create the first key, and the file modes after the first start."""
    path = tmp_path_factory.mktemp("elsewhere")
    gateway = Gateway(path / "made", ATHENA_CLIENT_KEY="")
    gateway.log_path = path / "gateway.log"
    gateway.start()
    made = [gateway.data_dir, *gateway.data_dir.rglob("*")]
    modes = {found.relative_to(path).as_posix(): found.stat().st_mode & 0o777 for found in made}
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


def test_stored_files_are_not_readable_by_other_users(elsewhere):
    gateway, modes = elsewhere
    assert {"made/secret_key", "made/client_key", "made/journal"} <= modes.keys()
    if not IS_POSTGRES:
        assert {"made/athena.sqlite3", "made/athena.sqlite3-wal"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    path = gateway.data_dir / "athena.sqlite3"
    assert (
        f"other users of this machine can read the database. Run: chmod 600 {path}*" in gateway.log
    )


def test_a_node_without_its_own_key_starts_and_tells_how_to_make_one(elsewhere):
    gateway, _ = elsewhere
    assert "$ATHENA_CLIENT_KEY" not in gateway.log
    assert ".venv/bin/python manage.py key create" in gateway.log
    done = gateway.manage("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note   client key: no key is stored on this machine" in done.stdout
    assert "ERROR" not in done.stdout


@pytest.mark.parametrize("command", [["key", "list"], ["token", "list"], ["config", "export"]])
def test_a_command_without_a_database_reports_it_in_one_line(command, tmp_path):
    gateway = Gateway(tmp_path, DATABASE_URL="postgres://me:canary-password@127.0.0.1:1/none")
    done = gateway.manage(*command)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "he database cannot be used: " in done.stderr
    assert "canary" not in done.stderr


def test_code_starts_claude_with_the_right_environment_and_passes_its_exit_code(demo, tmp_path):
    program = tmp_path / "claude"
    program.write_text(
        '#!/bin/sh\necho "$ANTHROPIC_BASE_URL|$ANTHROPIC_AUTH_TOKEN|$ANTHROPIC_API_KEY|$*"\nexit 7\n'
    )
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "sk-ant-of-another-user"}
    done = demo.manage("code", "--", "-p", "hello there", environment=path)
    assert done.returncode == 7
    assert done.stdout.strip() == f"{demo.url}|{KEY}||-p hello there"


def test_code_reports_what_is_missing(demo, tmp_path):
    done = demo.manage("code", environment={"PATH": str(tmp_path)})
    assert done.returncode == 127
    assert "claude is not installed" in done.stderr
    program = tmp_path / "claude"
    program.touch(mode=0o755)
    done = demo.manage("code", environment={"PATH": str(tmp_path), "ATHENA_PORT": "1"})
    assert "Start it with `make run`" in done.stderr


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


def test_a_port_in_use_is_reported_first(demo, tmp_path):
    done = Gateway(tmp_path).manage("serve", environment={"ATHENA_PORT": str(demo.port)})
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


def test_the_demo_model_prefers_a_tool_that_the_user_names():
    functions = [
        {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
        }
        for name in ("Read", "Bash")
    ]
    asked = {
        "model": "moonshotai/kimi-k2.5",
        "messages": [{"role": "user", "content": "Use bash to run `ls -l`"}],
        "tools": [{"type": "function", "function": function} for function in functions],
    }
    assert "functions.Bash:0" in [*answer(asked)][-1]["content"]
    assert "ls -l" in [*answer(asked)][-1]["content"]
