"""The step-by-step test of an upstream, over real sockets; it never shows the key."""

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
from tests.support.tested_upstream import CANARY, MODELS, TOOL_CALL
from tests.support.wire import stream

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _configured(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()


@pytest.fixture
def row(upstream):
    upstream.script("/v1/models", whole(MODELS))
    upstream.script("moonshotai/kimi-probed", reply(stream({"content": TOOL_CALL})))
    row = Upstream(name="tried", base_url=upstream.url)
    row.store_key(CANARY)
    return row


def steps(row, model=""):
    return {step.name: step for step in probe(read_upstream(row), load(), model=model)}


def test_every_step_of_a_working_upstream_passes(row):
    results = steps(row)
    assert [(name, step.state) for name, step in results.items()] == [
        ("settings", "ok"),
        ("name", "ok"),
        ("connection", "ok"),
        ("TLS", "ok"),
        ("key", "ok"),
        (LIST, "ok"),
        (CALL, "ok"),
    ]
    assert results["name"].detail == "127.0.0.1"
    assert results[LIST].detail == "2 models"
    assert results[CALL].detail == "moonshotai/kimi-probed called report_health, read as kimi"
    assert "plain HTTP" in results["TLS"].detail


def test_the_tool_call_is_requested_like_a_clients(row, upstream):
    script = upstream.script("moonshotai/kimi-probed", reply(stream({"content": TOOL_CALL})))
    steps(row)
    assert script.last.headers["authorization"] == f"Bearer {CANARY}"
    assert script.last.json["stream"] is True


def test_a_refused_key_ends_the_test_and_is_not_shown(row, upstream):
    error = {"error": {"message": f"no such key {CANARY}"}}
    upstream.script("/v1/models", whole(error, status=401))
    results = steps(row)
    assert (results["key"].state, results[LIST].state, results[CALL].state) == (
        "wrong",
        "skipped",
        "skipped",
    )
    assert "rejected with HTTP 401" in results["key"].detail


def test_messages_of_the_upstream_are_shown_without_the_key(row, upstream):
    error = {"error": {"message": f"the key {CANARY} may not do this"}}
    upstream.script("moonshotai/kimi-probed", whole(error, status=400))
    step_result = steps(row)[CALL]
    assert step_result.state == "wrong"
    assert "may not do this" in step_result.detail
    assert CANARY not in step_result.detail


def test_an_upstream_without_a_list_is_tested_with_the_given_model(row, upstream):
    upstream.script("/v1/models", whole({"error": "no"}, status=404))
    results = steps(row, model="moonshotai/kimi-probed")
    assert (results["key"].state, results[LIST].state, results[CALL].state) == ("ok", "wrong", "ok")
    assert steps(row)[CALL].state == "skipped"


def test_the_family_that_auto_read_is_named(row, upstream):
    upstream.script("house/plain", reply(stream({"content": TOOL_CALL})))
    assert steps(row, model="house/plain")[CALL].detail.endswith("report_health, read as kimi")


def test_a_model_that_calls_no_tool_fails_the_test(row, upstream):
    upstream.script("house/plain", reply(stream({"content": "I would rather not."})))
    step_result = steps(row, model="house/plain")[CALL]
    assert (step_result.state, "without calling the tool" in step_result.detail) == ("wrong", True)


def test_a_model_that_calls_another_tool_fails_the_test(row, upstream):
    wrong = TOOL_CALL.replace("report_health", "get_weather")
    upstream.script("moonshotai/kimi-probed", reply(stream({"content": wrong})))
    step_result = steps(row)[CALL]
    assert (step_result.state, "another tool than report_health" in step_result.detail) == (
        "wrong",
        True,
    )


def test_a_missing_endpoint_asks_for_the_version(row, upstream):
    upstream.script("moonshotai/kimi-probed", whole({"detail": "Not Found"}, status=404))
    assert "Is the version, such as /v1, missing" in steps(row)[CALL].detail


def test_a_refused_key_is_explained_in_the_words_of_the_upstream(row, upstream):
    upstream.script("/v1/models", whole({"error": {"message": "no credit left"}}, status=403))
    assert steps(row)["key"].detail == "the key was rejected with HTTP 403: no credit left"


def test_the_public_model_list_of_openrouter_does_not_prove_a_key(row, upstream):
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
    results = steps(row)
    wrong = [name for name, seen in results.items() if seen.state == "wrong"]
    assert wrong == [step]
    assert words in results[step].detail


def test_an_untrusted_certificate_is_reported(row, tmp_path):
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
        step_result = steps(row)["TLS"]
    assert (step_result.state, "self-signed" in step_result.detail) == ("wrong", True)


def test_an_unset_variable_is_named(row):
    row.sealed_key, row.key_variable = "", "NO_SUCH_API_KEY"
    step_result = steps(row)["settings"]
    assert (step_result.state, "NO_SUCH_API_KEY is not set" in step_result.detail) == (
        "wrong",
        True,
    )


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"data": 3}, "JSON"),
        ({"data": [{"id": []}, {}]}, "JSON"),
        ([], "JSON"),
        (b"<html><title>Log in</title>", r"a web page \(HTTP 200, text/html\): Log in"),
        (b"", "an empty body"),
    ],
)
def test_what_came_instead_of_a_model_list_is_named(row, upstream, body, kind):
    """N1"""
    upstream.script("/v1/models", whole(body))
    with pytest.raises(
        Problem, match=f"no list of models: tried sent {kind}.*Is the base URL right"
    ):
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
def test_other_statuses_do_not_count_as_an_accepted_key(
    row, upstream, status, headers, state, words
):
    upstream.script("/v1/models", whole({"error": "no"}, status=status, headers=headers))
    step_result = steps(row)["key"]
    assert (step_result.state, words in step_result.detail) == (state, True)


@contextmanager
def raw_server(*parts, pause=0.0):
    """A server that sends these parts, whatever the request."""
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
def test_a_response_that_arrives_byte_by_byte_times_out(row, monkeypatch, drips):
    monkeypatch.setattr("proxy.serving.upstream_test._LIST_SECONDS", 0.5)
    head = b"HTTP/1.1 200 OK\r\n" + (b"content-length: 600\r\n\r\n" if drips == "body" else b"")
    with raw_server(head, *[b"x"] * 600, pause=0.1) as url:
        row.base_url = url
        began = time.monotonic()
        with pytest.raises(Problem, match="did not answer within"):
            models_of(read_upstream(row))
    assert time.monotonic() - began < 30, "the whole response takes a minute"


def test_a_deeply_nested_model_list_is_unreadable(row, upstream):
    upstream.script("/v1/models", whole(b'{"data": ' + b"[" * 100_000))
    with pytest.raises(Problem, match="no list of models"):
        models_of(read_upstream(row))


def test_a_name_too_long_for_a_route_is_left_out(row, upstream):
    names = ["", "x" * 201, "x" * 200]
    upstream.script("/v1/models", whole({"data": [{"id": name} for name in names]}))
    assert [*models_of(read_upstream(row))] == ["x" * 200]


def test_context_windows_are_read_from_the_list_of_models(row, upstream):
    entries = [
        {"id": "vllm", "max_model_len": 32768},
        {"id": "openrouter", "context_length": 262144},
        {"id": "none"},
        *({"id": str(bad), "context_length": bad} for bad in (None, "8192", True, 5, 2**31, 8e3)),
    ]
    upstream.script("/v1/models", whole({"data": entries}))
    listed = models_of(read_upstream(row))
    assert (listed.pop("vllm"), listed.pop("openrouter")) == (32768, 262144)
    assert len(listed) == 7
    assert set(listed.values()) == {None}


@pytest.mark.parametrize("entry", ["text", 5, None, []])
def test_a_list_whose_entries_are_not_objects_is_named(row, upstream, entry):
    upstream.script("/v1/models", whole({"data": [entry]}))
    with pytest.raises(Problem, match="no list of models"):
        models_of(read_upstream(row))


def test_a_key_that_is_not_a_valid_header_is_not_shown(row):
    with raw_server(f"HTTP/1.1 two hundred {CANARY}\r\n\r\n".encode()) as url:
        row.base_url = url
        with pytest.raises(Problem, match="connection was lost") as raised:
            models_of(read_upstream(row))
    assert CANARY not in str(raised.value)
