"""Every page at once: CSRF, caches, frames, defects, other origins; and content that may not stay."""

import asyncio
import contextlib
import re

import httpx
import pytest
from asgiref.testing import ApplicationCommunicator
from django.apps import apps
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client

from athena_site import asgi
from proxy.models import ClientKey, Exchange, ModelRoute, Replay, Transcript, Upstream
from tests.support.access_table import (
    PAGES,
    SUPERUSER,
    TABLE,
    address,
    client_of,
    places,
    send,
)
from tests.support.chat import ask
from tests.support.gateway import ROOT
from tests.support.scripted_upstream import whole
from tests.support.stored_exchanges import leaked_kimi

__all__ = ["places"]  # a fixture
CANARY = "canary-in-a-defect"


def contents():
    """Every row, but for sessions and the moment of the last login."""
    models = [
        m for m in apps.get_models() if m._meta.app_label in ("auth", "proxy", "admin", "axes")
    ]
    return {
        model.__name__: [
            {n: v for n, v in row.items() if n != "last_login"}
            for row in model._default_manager.order_by("pk").values()
        ]
        for model in models
    }


def readable(places):
    """Every address that an administrator may read."""
    return [
        address(route, places)
        for name, route in PAGES
        if TABLE[name].allows(SUPERUSER, "GET")
        and name not in ("admin:logout", "admin:view_on_site")
    ]


def test_no_page_changes_anything_by_being_read_and_none_is_cached_or_framed(places):
    """X9, X10, X16."""
    client = client_of(SUPERUSER)
    before, seen = contents(), 0
    for url in readable(places):
        response = client.get(url)
        cache.clear()
        assert "no-store" in response.headers["cache-control"], url
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"], url
        assert response.headers["x-frame-options"] == "DENY", url
        assert response.headers["x-content-type-options"] == "nosniff", url
        assert "access-control-allow-origin" not in response.headers, url
        seen += response.status_code == 200
    assert seen > 40
    assert contents() == before


def test_every_form_wants_the_pages_own_token(places):
    """X9: whoever has a browser with a session cannot be made to send one."""
    person = client_of(SUPERUSER)
    client = Client(enforce_csrf_checks=True)
    client.cookies = person.cookies
    before, tried = contents(), 0
    for name, route in PAGES:
        for method in ("POST", "PATCH", "DELETE", "PUT"):
            if not TABLE[name].allows(SUPERUSER, method):
                continue
            url = address(route, places)
            response = send(client, method, url, TABLE[name].body)
            cache.clear()
            tried += 1
            assert response.status_code in (403, 404, 405), (method, url, response.status_code)
    assert tried > 60
    assert contents() == before


def test_a_defect_is_json_or_a_plain_page_and_shows_nothing(places, monkeypatch, settings):
    """X17: force 500 everywhere."""
    client = client_of(SUPERUSER)
    client.raise_request_exception = False

    def broken(*args, **kwargs):
        hidden = settings.SECRET_KEY  # noqa: F841  a local variable, as a traceback page would show
        raise RuntimeError(CANARY)

    monkeypatch.setattr("django.contrib.auth.backends.ModelBackend.get_user", broken)
    failed = 0
    for url in readable(places):
        response = client.get(url)
        if response.status_code != 500:
            continue
        failed += 1
        assert CANARY not in response.text
        assert "Traceback" not in response.text
        assert settings.SECRET_KEY not in response.text
        assert "no-store" in response.headers["cache-control"]
        if url.startswith("/api/"):
            assert response.headers["content-type"] == "application/json", url
            assert response.json()["detail"]
        else:
            assert "Something went wrong" in response.text, url
    assert failed > 40


def test_what_is_not_there_is_json_to_programs(configured):
    response = client_of(SUPERUSER).get("/api/nowhere")
    assert (response.status_code, response.json()) == (404, {"detail": "Not found."})


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models", "/api/exchanges/", "/admin/", "/"])
def test_other_origins_are_told_nothing(client, path):
    """X18."""
    asked = {
        "origin": "https://evil.example.org",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    for method in ("OPTIONS", "GET"):
        response = client.request(method, path, headers=asked)
        assert not [name for name in response.headers if name.startswith("access-control-")]
        if method == "OPTIONS" and path.startswith("/v1"):
            assert response.status_code == 405


def test_a_defect_of_the_hot_path_is_json_without_its_cause(monkeypatch):
    """X17: /v1 answers in its caller's dialect."""

    def broken(*args, **kwargs):
        raise RuntimeError(CANARY)

    monkeypatch.setattr("proxy.serving.admission._authenticate", broken)

    async def call(path):
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-length", b"2")],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "http_version": "1.1",
            "scheme": "http",
        }
        talk = ApplicationCommunicator(asgi.application, scope)
        await talk.send_input({"type": "http.request", "body": b"{}"})
        head = await talk.receive_output(10)
        return head, await talk.receive_output(10)

    for path in ("/v1/messages", "/v1/chat/completions"):
        head, body = asyncio.run(call(path))
        assert head["status"] == 500
        headers = {name.lower(): value for name, value in head["headers"]}
        assert headers[b"content-type"] == b"application/json"
        assert CANARY.encode() not in body["body"]


def test_a_client_may_ask_that_nothing_of_a_request_be_kept(gateway, client, upstream, model):
    """X3: failures are kept otherwise."""
    script = upstream.script(model, whole({"error": {"message": "no"}}, status=500))
    for headers, kept in (({"x-athena-capture": "off"}, False), ({}, True)):
        response = client.post("/v1/messages", json=ask(model), headers=headers)
        exchange = gateway.exchange(response)
        assert (gateway.transcript(exchange) is not None) is kept
    assert "x-athena-capture" not in script.last.headers


def test_what_is_stored_of_somebody_is_erased_on_demand(configured, capsys, caplog):
    """X4."""
    person = User.objects.create(username="dora")
    key = ClientKey.objects.create(label="d", owner=person, prefix="sk", digest="d")
    rows = [leaked_kimi(key=key) for _ in range(3)]
    other = leaked_kimi()
    Replay.objects.create(
        exchange=rows[0],
        format="kimi",
        result="same",
        buffer_limit=1024,
        configuration_version=1,
        sent=b"",
    )
    call_command("erase", "--request", rows[0].request_id, "--content")
    assert "content of 1 exchange." in capsys.readouterr().out
    assert not Transcript.objects.filter(exchange=rows[0]).exists()
    assert not Replay.objects.exists()
    call_command("erase", "--request", rows[0].request_id)
    call_command("erase", "--key", str(key.pk), "--content")
    assert Exchange.objects.filter(key=key).count() == 2
    call_command("erase", "--owner", "dora")
    assert "Erased 2 exchanges." in capsys.readouterr().out
    assert list(Exchange.objects.all()) == [other]
    assert Transcript.objects.filter(exchange=other).exists()
    with pytest.raises(CommandError, match="no client key has the id"):
        call_command("erase", "--key", "\x1b[31m9")


def test_no_source_marks_text_as_safe_or_builds_script_from_data():
    """X5, X6: pages have no inline code to break out of."""
    for path in [*ROOT.glob("proxy/**/*.py"), *ROOT.glob("templates/**/*.html")]:
        text = path.read_text()
        assert "mark_safe" not in text, path
        assert "|safe" not in text, path
        assert "autoescape off" not in text, path
        for tag in re.findall(r"<script[^>]*>", text):
            assert "src=" in tag, path
        assert not re.search(r"\son[a-z]+=", text) or path.suffix == ".py", path


def test_what_terminals_obey_is_not_sent_to_them(configured, upstream, capsys):
    """X21: the doctor repeats what others call a model."""
    hostile = "evil\x1b]0;owned\x07\x1b[2J\u202e"
    upstream.script("/v1/models", whole({"error": {"message": hostile}}, status=401))
    row = Upstream.objects.create(name="hostile", base_url=upstream.url)
    ModelRoute.objects.create(
        pattern="claude-sonnet-4-5", upstream=row, upstream_model=hostile, priority=0
    )
    with contextlib.suppress(SystemExit, CommandError):
        call_command("doctor")
    shown = capsys.readouterr()
    assert "⟦ESC⟧" in shown.out
    assert not re.search("[\x07\x1b\u202e]", shown.out + shown.err)


def test_a_host_that_is_not_allowed_is_told_in_words_and_not_repeated(gateway):
    for path in ("/admin/", "/api/upstreams/"):
        answer = httpx.get(f"{gateway.url}{path}", headers={"host": "canary.example"})
        assert (answer.status_code, "ATHENA_ALLOWED_HOSTS" in answer.text) == (400, True), path
        assert "canary" not in answer.text
        assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert answer.json().keys() == {"detail"}
