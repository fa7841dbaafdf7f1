"""An upstream is tried step by step, over real sockets, and the key is never shown."""

import ssl
import subprocess
import threading
import time
from contextlib import closing, contextmanager, suppress
from socket import create_server

import pytest

from proxy.configuration.snapshot import load
from proxy.configuration.upstream import read_upstream
from proxy.models import Upstream
from proxy.serving.upstream_test import CALL, LIST, Problem, models_of, probe
from tests.support.chat import reply
from tests.support.scripted_upstream import whole
from tests.support.stored_exchanges import configure
from tests.support.wire import stream

pytestmark = pytest.mark.django_db(transaction=True)
CANARY = "sk-or-v1-canary-of-the-probe"
CALLED = '<|tool_calls_section_begin|><|tool_call_begin|>functions.report_health:0<|tool_call_argument_begin|>{"state": "good"}<|tool_call_end|><|tool_calls_section_end|>'
MODELS = {"data": [{"id": "moonshotai/kimi-probed"}, {"id": "house/plain"}]}


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


@pytest.fixture
def row(upstream):
    upstream.script("/v1/models", whole(MODELS))
    upstream.script("moonshotai/kimi-probed", reply(stream({"content": CALLED})))
    made = Upstream(name="tried", base_url=upstream.url)
    made.store_key(CANARY)
    return made


def steps(row, model=""):
    return {step.name: step for step in probe(read_upstream(row), load(), model=model)}


def test_every_step_of_a_good_upstream_is_told(row):
    found = steps(row)
    assert [(name, step.state) for name, step in found.items()] == [
        ("settings", "ok"),
        ("name", "ok"),
        ("connection", "ok"),
        ("TLS", "ok"),
        ("key", "ok"),
        (LIST, "ok"),
        (CALL, "ok"),
    ]
    assert found["name"].detail == "127.0.0.1"
    assert found[LIST].detail == "2 models"
    assert found[CALL].detail == "moonshotai/kimi-probed called report_health, read as kimi"
    assert "plain HTTP" in found["TLS"].detail


def test_the_request_is_asked_as_a_clients_would_be(row, upstream):
    script = upstream.script("moonshotai/kimi-probed", reply(stream({"content": CALLED})))
    steps(row)
    assert script.last.headers["authorization"] == f"Bearer {CANARY}"
    assert script.last.json["stream"] is True


def test_a_refused_key_ends_it_and_is_not_shown(row, upstream):
    said = {"error": {"message": f"no such key {CANARY}"}}
    upstream.script("/v1/models", whole(said, status=401))
    found = steps(row)
    assert (found["key"].state, found[LIST].state, found[CALL].state) == (
        "wrong",
        "skipped",
        "skipped",
    )
    assert "refused with HTTP 401" in found["key"].detail


def test_what_an_upstream_says_is_told_without_the_key(row, upstream):
    said = {"error": {"message": f"the key {CANARY} may not do this"}}
    upstream.script("moonshotai/kimi-probed", whole(said, status=400))
    told = steps(row)[CALL]
    assert told.state == "wrong"
    assert "may not do this" in told.detail
    assert CANARY not in told.detail


def test_an_upstream_without_a_list_is_asked_for_the_model_that_is_named(row, upstream):
    upstream.script("/v1/models", whole({"error": "no"}, status=404))
    found = steps(row, model="moonshotai/kimi-probed")
    assert (found["key"].state, found[LIST].state, found[CALL].state) == ("ok", "wrong", "ok")
    assert steps(row)[CALL].state == "skipped"


def test_a_model_that_calls_nothing_is_not_well(row, upstream):
    upstream.script("house/plain", reply(stream({"content": "I would rather not."})))
    told = steps(row, model="house/plain")[CALL]
    assert (told.state, "without calling the tool" in told.detail) == ("wrong", True)


def test_openrouters_list_says_nothing_about_a_key(row, upstream):
    row.service = "openrouter"
    upstream.script("/v1/key", whole({"error": {"message": "no"}}, status=401))
    assert steps(row)["key"].state == "wrong"
    upstream.script("/v1/key", whole({"data": {"label": "x"}}))
    assert steps(row)["key"].state == "ok"


@pytest.mark.parametrize(
    ("base_url", "step", "words"),
    [
        ("http://no-such-host.invalid/v1", "name", "cannot be resolved"),
        ("http://127.0.0.1:1/v1", "connection", "port 1 is unreachable"),
        ("https://127.0.0.1:{port}/v1", "TLS", "TLS handshake failed"),
    ],
)
def test_the_step_that_fails_is_named(row, upstream, base_url, step, words):
    row.base_url = base_url.format(port=upstream.port)
    found = steps(row)
    wrong = [name for name, seen in found.items() if seen.state == "wrong"]
    assert wrong == [step]
    assert words in found[step].detail


def test_a_certificate_that_nobody_trusts_is_named(row, tmp_path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with closing(create_server(("127.0.0.1", 0))) as server:

        def serve():
            for _ in range(2):
                plain, _ = server.accept()
                try:
                    context.wrap_socket(plain, server_side=True).close()
                except OSError:
                    plain.close()

        threading.Thread(target=serve, daemon=True).start()
        row.base_url = f"https://localhost:{server.getsockname()[1]}/v1"
        told = steps(row)["TLS"]
    assert (told.state, "self-signed" in told.detail) == ("wrong", True)


def test_a_variable_that_is_not_set_is_named(row):
    row.sealed_key, row.key_variable = "", "NO_SUCH_VARIABLE_HERE"
    told = steps(row)["settings"]
    assert (told.state, "NO_SUCH_VARIABLE_HERE is not set" in told.detail) == ("wrong", True)


@pytest.mark.parametrize("body", [{"data": 3}, {"data": [{"id": []}, {}]}, [], b"<html>", b""])
def test_a_list_that_cannot_be_read_is_said_to_be(row, upstream, body):
    upstream.script("/v1/models", whole(body))
    with pytest.raises(Problem, match="not valid JSON"):
        models_of(read_upstream(row))


@pytest.mark.parametrize(
    ("status", "headers", "state", "words"),
    [
        (404, (), "ok", "unknown: the upstream returned HTTP 404"),
        (
            301,
            ("location: https://elsewhere.example/v1/models",),
            "wrong",
            "https://elsewhere.example",
        ),
    ],
)
def test_what_says_nothing_of_the_key_is_not_taken_for_a_yes(
    row, upstream, status, headers, state, words
):
    upstream.script("/v1/models", whole({"error": "no"}, status=status, headers=headers))
    told = steps(row)["key"]
    assert (told.state, words in told.detail) == (state, True)


@contextmanager
def talking(*parts, pause=0.0):
    """A server of its own mind: it says the parts, whatever it is asked."""
    with closing(create_server(("127.0.0.1", 0))) as server:

        def serve():
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(4096)
                        for part in parts:
                            connection.sendall(part)
                            time.sleep(pause)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


@pytest.mark.parametrize("drips", ["head", "body"])
def test_an_answer_that_comes_byte_by_byte_is_waited_for_no_longer_than_another(
    row, monkeypatch, drips
):
    monkeypatch.setattr("proxy.serving.upstream_test._LIST_SECONDS", 0.5)
    head = b"HTTP/1.1 200 OK\r\n" + (b"content-length: 60\r\n\r\n" if drips == "body" else b"")
    with talking(head, *[b"x"] * 60, pause=0.1) as url:
        row.base_url = url
        began = time.monotonic()
        with pytest.raises(Problem, match="did not answer within"):
            models_of(read_upstream(row))
    assert time.monotonic() - began < 5, "all of it takes six seconds"


def test_a_list_without_bottom_is_said_to_be_unreadable(row, upstream):
    upstream.script("/v1/models", whole(b'{"data": ' + b"[" * 100_000))
    with pytest.raises(Problem, match="not valid JSON"):
        models_of(read_upstream(row))


def test_a_name_that_no_route_could_have_is_left_out(row, upstream):
    names = ["", "x" * 201, "x" * 200]
    upstream.script("/v1/models", whole({"data": [{"id": name} for name in names]}))
    assert models_of(read_upstream(row)) == ["x" * 200]


def test_a_key_that_is_no_http_is_not_shown(row):
    with talking(f"HTTP/1.1 two hundred {CANARY}\r\n\r\n".encode()) as url:
        row.base_url = url
        with pytest.raises(Problem, match="connection was lost") as told:
            models_of(read_upstream(row))
    assert CANARY not in str(told.value)
