"""Rules of all pages: CSRF, caching, framing, error pages, other origins; and erasure of content."""

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
from tests.support.access_table import PAGES, SUPERUSER, TABLE, address, client_of, send
from tests.support.chat import ask
from tests.support.gateway import ROOT
from tests.support.scripted_upstream import whole
from tests.support.stored_exchanges import leaked_kimi

CANARY = "canary-in-a-defect"


def contents():
    """Return every row, except sessions and last logins."""
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


def readable(url_parts):
    """Return every URL that a superuser may read."""
    return [
        address(route, url_parts)
        for name, route in PAGES
        if TABLE[name].allows(SUPERUSER, "GET")
        and name not in ("admin:logout", "admin:view_on_site")
    ]


def test_reading_pages_changes_nothing_and_pages_are_not_cached_or_framed(url_parts):
    """X9, X10, X16."""
    client = client_of(SUPERUSER)
    before, seen = contents(), 0
    for url in readable(url_parts):
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


def test_every_form_needs_a_csrf_token(url_parts):
    """X9: cross-site request forgery."""
    logged_in = client_of(SUPERUSER)
    client = Client(enforce_csrf_checks=True)
    client.cookies = logged_in.cookies
    before, requests = contents(), 0
    for name, route in PAGES:
        for method in ("POST", "PATCH", "DELETE", "PUT"):
            if not TABLE[name].allows(SUPERUSER, method):
                continue
            url = address(route, url_parts)
            response = send(client, method, url, TABLE[name].body)
            cache.clear()
            requests += 1
            assert response.status_code in (403, 404, 405), (method, url, response.status_code)
    assert requests > 60
    assert contents() == before


def test_an_error_page_shows_no_details(url_parts, monkeypatch, settings):
    """X17: every page fails."""
    client = client_of(SUPERUSER)
    client.raise_request_exception = False

    def broken(*args, **kwargs):
        hidden = settings.SECRET_KEY  # noqa: F841  a debug page would show it
        raise RuntimeError(CANARY)

    monkeypatch.setattr("django.contrib.auth.backends.ModelBackend.get_user", broken)
    failed = 0
    for url in readable(url_parts):
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


def test_a_missing_api_path_is_answered_in_json(configured):
    response = client_of(SUPERUSER).get("/api/nowhere")
    assert (response.status_code, response.json()) == (404, {"detail": "Not found."})


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models", "/api/exchanges/", "/admin/", "/"])
def test_other_origins_get_no_cors_headers(client, path):
    """X18."""
    headers = {
        "origin": "https://evil.example.org",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    for method in ("OPTIONS", "GET"):
        response = client.request(method, path, headers=headers)
        assert not [name for name in response.headers if name.startswith("access-control-")]
        if method == "OPTIONS" and path.startswith("/v1"):
            assert response.status_code == 405


def test_an_internal_error_under_v1_is_json_without_details(monkeypatch):
    """X17: /v1 answers in the dialect of the client."""

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
        head = await talk.receive_output(60)
        return head, await talk.receive_output(60)

    for path in ("/v1/messages", "/v1/chat/completions"):
        head, body = asyncio.run(call(path))
        assert head["status"] == 500
        headers = {name.lower(): value for name, value in head["headers"]}
        assert headers[b"content-type"] == b"application/json"
        assert CANARY.encode() not in body["body"]


def test_a_client_can_switch_off_transcripts(gateway, client, upstream, model):
    """X3: otherwise failures are stored."""
    script = upstream.script(model, whole({"error": {"message": "no"}}, status=500))
    for headers, is_stored in (({"x-athena-capture": "off"}, False), ({}, True)):
        response = client.post("/v1/messages", json=ask(model), headers=headers)
        exchange = gateway.exchange(response)
        assert (gateway.transcript(exchange) is not None) is is_stored
    assert "x-athena-capture" not in script.last.headers


def test_erase_deletes_content_by_request_key_and_owner(configured, capsys, caplog):
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


def test_templates_escape_all_text_and_have_no_inline_scripts():
    """X5, X6: pages contain no inline scripts."""
    for path in [*ROOT.glob("proxy/**/*.py"), *ROOT.glob("templates/**/*.html")]:
        text = path.read_text()
        assert "mark_safe" not in text, path
        assert "|safe" not in text, path
        assert "autoescape off" not in text, path
        for tag in re.findall(r"<script[^>]*>", text):
            assert "src=" in tag, path
        assert not re.search(r"\son[a-z]+=", text) or path.suffix == ".py", path


def test_control_characters_do_not_reach_the_terminal(configured, upstream, capsys):
    """X21: `doctor` prints model names and messages of upstreams."""
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


def test_a_forbidden_host_name_is_explained_and_not_repeated(gateway):
    for path in ("/admin/", "/api/upstreams/"):
        answer = httpx.get(f"{gateway.url}{path}", headers={"host": "canary.example"})
        assert (answer.status_code, "ATHENA_ALLOWED_HOSTS" in answer.text) == (400, True), path
        assert "canary" not in answer.text
        assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert answer.json().keys() == {"detail"}
