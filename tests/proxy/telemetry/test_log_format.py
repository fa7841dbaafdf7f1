"""Log lines: one per record, with separate fields and without secrets."""

import json
import logging
import os
import pty
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.telemetry import log_format
from proxy.telemetry.log_format import JSONFormatter, TextFormatter
from tests.support.calls_in_text import NATIVE
from tests.support.chat import ask, reply, says, stream
from tests.support.gateway import ROOT, Gateway
from tests.support.scripted_upstream import whole
from tests.support.waiting import wait_for

DOCUMENTED = set(
    re.findall(
        r"`(\w+)`",
        "".join(
            re.findall(r"^\| (`\w+`(?:, `\w+`)?) \|", (ROOT / "docs/metrics.md").read_text(), re.M)
        ),
    )
)
SECRETS = {
    "key": "sk-or-v1-0123456789abcdef0123",
    "github": "ghp_" + "a1" * 18,
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "bearer": "Bearer abcdefghijklmnop.qrstuvwxyz",
    "known": "a key of unusual form",
}
FORMATTERS = [JSONFormatter(), TextFormatter()]


def log_lines(gateway):
    """Parse the JSON lines of the log; skip the messages for the operator."""
    return [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]


def line_of_request(gateway, response):
    request_id = response.headers["request-id"]
    lines = wait_for(lambda: [e for e in log_lines(gateway) if e.get("request_id") == request_id])
    assert len(lines) == 1
    return lines[0]


def record(message="something", *arguments, exc_info=None, **fields):
    result = logging.LogRecord("athena.x", logging.INFO, __file__, 1, message, arguments, exc_info)
    result.fields = fields
    return result


def exc_info_of(error):
    try:
        raise error
    except type(error):
        return sys.exc_info()


@pytest.fixture
def known_secret():
    log_format.redact_in_log([SECRETS["known"]])
    yield
    log_format.redact_in_log([])


def test_an_exchange_is_one_line_with_separate_fields(gateway, client, upstream, kimi):
    upstream.script(kimi, reply(stream({"content": NATIVE["moonshotai/kimi-k2.5"]})))
    response = client.post("/v1/messages", json=ask(kimi, stream=True))
    line = line_of_request(gateway, response)
    assert re.fullmatch(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert 0 < line.pop("duration_ms") < 60_000
    notices = line.pop("notices")
    assert "rescued" in notices
    assert line == {
        "level": "INFO",
        "logger": "athena.exchange",
        "message": "answered",
        "request_id": response.headers["request-id"],
        "status": 200,
        "outcome": "ok",
        "key_id": 1,
        "model": kimi,
        "upstream": "openrouter",
        "upstream_model": kimi,
        "format": "kimi",
        "tool_calls": 1,
        "stop_reason": "tool_use",
    }


def test_the_line_of_a_failed_exchange_has_its_code_and_source(gateway, client, upstream, model):
    upstream.script(model, whole({"error": {"message": "no such model"}}, 404))
    line = line_of_request(gateway, client.post("/v1/messages", json=ask(model)))
    assert (line["error_code"], line["error_source"]) == ("upstream_not_found", "upstream")
    assert "no such model" in line["message"]
    line = line_of_request(gateway, client.get("/v1/nothing"))
    assert (line["status"], line["error_code"]) == (404, "not_found")
    assert line.keys() <= DOCUMENTED
    assert "model" not in line


def test_text_of_clients_and_upstreams_cannot_forge_a_line(gateway, client, upstream):
    name = 'x"}\n{"level": "ERROR", "message": "forged"}\r\x1b[2J\x7f\u2028\u202e'
    upstream.script(name, whole({"error": {"message": "no\n{\x1b[31m"}}, 500))
    response = client.post("/v1/messages", json=ask(name))
    line = line_of_request(gateway, response)
    assert line["model"] == name
    client.get("/v1/%0a%7b%22forged%22%3a1%7d")
    with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
        connection.sendall(b"\x00garbage\r\n\r\n")
        connection.recv(100)
    wait_for(lambda: any(entry["logger"] == "athena.protocol" for entry in log_lines(gateway)))
    written = [line for line in gateway.log.split("\n") if line.startswith("{")]
    assert all(line.isascii() and line.isprintable() for line in written)
    assert not [entry for entry in log_lines(gateway) if "forged" in entry]


def test_an_unknown_host_name_is_rejected_without_a_log_line(gateway, client):
    before = len(gateway.log)
    response = client.get("/admin/login/", headers={"host": "strange.example"})
    assert response.status_code == 400
    assert client.get("/healthz").status_code == 200
    assert "strange.example" not in gateway.log[before:]
    assert "Traceback" not in gateway.log[before:]


def test_every_log_field_is_documented(gateway, client, upstream, model):
    upstream.script(model, says("Hi"))
    line_of_request(gateway, client.post("/v1/messages", json=ask(model)))
    written = {name for entry in log_lines(gateway) for name in entry}
    assert written <= DOCUMENTED
    assert {"time", "level", "logger", "message", "exception"} <= DOCUMENTED


@pytest.mark.parametrize("formatter", FORMATTERS)
@pytest.mark.parametrize("kind", SECRETS)
def test_secrets_are_redacted_in_every_part_of_a_line(known_secret, formatter, kind):
    secret = SECRETS[kind]
    line = formatter.format(
        record(
            "the upstream said %s",
            f"{secret} is wrong",
            exc_info=exc_info_of(ValueError(f"at https://host/?key={secret}")),
            model=secret,
        )
    )
    assert secret.removeprefix("Bearer ") not in line
    assert line.count(f"[redacted:{kind}]") == 3


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_truncated_private_key_does_not_hide_other_fields(formatter):
    line = formatter.format(record("-----BEGIN RSA PRIVATE KEY-----\nMIIE", model="kept"))
    assert "MIIE" not in line
    assert "kept" in line


def test_an_exception_is_one_json_line_with_its_traceback():
    token = log_format.request_id.set("req_1")
    try:
        line = JSONFormatter().format(record("a defect", exc_info=exc_info_of(ValueError("a\nb"))))
    finally:
        log_format.request_id.reset(token)
    assert "\n" not in line
    entry = json.loads(line)
    assert entry["request_id"] == "req_1"
    assert entry["exception"].startswith("Traceback (most recent call last):\n")
    assert entry["exception"].endswith("ValueError: a\nb")


def test_text_lines_quote_values_that_are_not_words():
    line = TextFormatter().format(
        record(
            "done \x1b[2J",
            exc_info=exc_info_of(ValueError("a\n2026-01-01 forged")),
            model="a b=é\n",
        )
    )
    first, *trace = line.split("\n")
    assert re.fullmatch(r"\S+Z INFO athena\.x done \\x1b\[2J model=\"a b=\\u00e9\\n\"", first)
    assert trace
    assert all(line.startswith("    ") for line in trace)
    assert (
        TextFormatter()
        .format(record(notices=["a", "b"], calls=0))
        .endswith("something notices=a,b calls=0")
    )


def test_a_terminal_gets_text_and_a_file_gets_json(tmp_path):
    gateway = Gateway(tmp_path)
    command = ["manage.py", "shell", "--no-imports", "-c"]
    code = "import logging; logging.getLogger('athena.x').info('hello')"
    terminal, stderr = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, *command, code],
            cwd=ROOT,
            env=gateway.environment,
            stderr=stderr,
            check=True,
            timeout=60,
        )
        assert os.read(terminal, 1000).decode().strip().endswith("INFO athena.x hello")
    finally:
        os.close(terminal)
        os.close(stderr)
    done = gateway.manage(*command[1:], code)
    assert json.loads(done.stderr)["message"] == "hello"
    done = gateway.manage(*command[1:], code, environment={"ATHENA_LOG_FORMAT": "text"})
    assert done.stderr.strip().endswith("INFO athena.x hello")
    done = gateway.manage("check", environment={"ATHENA_LOG_FORMAT": "xml"})
    assert "ATHENA_LOG_FORMAT must be one of auto, json, text, not 'xml'" in done.stderr


def test_workers_write_the_same_log_lines(upstream, tmp_path, model):
    upstream.script(model, says("Hi"))
    gateway = Gateway(
        Path(tmp_path),
        OPENROUTER_API_KEY="sk-or-canary-of-the-upstream",
        OPENROUTER_BASE_URL=upstream.url,
        ATHENA_WORKERS="2",
    ).start()
    try:
        with gateway.client() as client:
            line = line_of_request(gateway, client.post("/v1/messages", json=ask(model)))
        assert line["outcome"] == "ok"
    finally:
        gateway.stop()
    assert "Traceback" not in gateway.log
    assert "sk-or-canary" not in gateway.log
