"""The API of the configuration as a whole: its version, and how names are resolved."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from django.core.cache import cache

from proxy.models import ConfigurationVersion, FormatOverride, GatewaySettings, ModelRoute, Upstream
from proxy.roles import OPERATORS
from tests.support.api_clients import send_json, staff_user, token_client
from tests.support.calls_in_text import KIMI_CALL
from tests.support.chat import TOOLS, ask, read, reply, stream
from tests.support.gateway import Gateway
from tests.support.stored_exchanges import configure
from tests.support.waiting import wait_for


@pytest.fixture
def operator(db, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    configure()
    cache.clear()  # the throttles count requests in it
    yield token_client(staff_user(OPERATORS, username="olga"))
    cache.clear()


def test_a_name_is_resolved_like_in_a_request(operator):
    demo = Upstream.objects.get()
    other = ModelRoute.objects.create(pattern="spare", upstream=demo, upstream_model="qwen/spare")
    ModelRoute.objects.create(
        pattern="house-*",
        upstream=demo,
        upstream_model="moonshotai/kimi-k2",
        fallback=other,
        max_tokens=4096,
        context_window=100_000,
        priority=1,
    )
    found = operator.get("/api/resolve/?model=House-1").json()
    assert (found["pattern"], found["upstream"], found["upstream_model"]) == (
        "house-*",
        "demo",
        "moonshotai/kimi-k2",
    )
    assert (found["format"], found["format_reason"], found["max_tokens"]) == (
        "kimi",
        "detection",
        4096,
    )
    assert (found["fallback"]["upstream_model"], found["fallback"]["format"]) == (
        "qwen/spare",
        "qwen",
    )
    FormatOverride.objects.create(pattern="moonshotai/*", format="deepseek")
    found = operator.get("/api/resolve/?model=house-1").json()
    assert (found["format"], found["format_reason"]) == ("deepseek", "override")
    assert found["version"] == ConfigurationVersion.objects.get().number


@pytest.mark.parametrize(
    ("model", "format_name", "origin"),
    [
        ("moonshotai/kimi-k2", "kimi", "detected from the model's name"),
        ("house/one", "auto", "the name says nothing about the format: read as auto"),
        (
            "openai/gpt-5",
            "standard",
            "models with this name answer with structured calls only",
        ),
        ("mine/one[1M]", "qwen", "the override mine/*"),
    ],
)
def test_a_resolution_has_the_reason_for_the_format(operator, model, format_name, origin):
    FormatOverride.objects.create(pattern="mine/*", format="qwen")
    found = operator.get("/api/resolve/", {"model": model}).json()
    assert (found["format"], found["format_origin"]) == (format_name, origin)


def test_the_setting_for_unknown_models_can_be_changed(operator):
    assert operator.get("/api/settings/").json()["unknown_format"] == "auto"
    refused = send_json(operator, "PATCH", "/api/settings/", {"unknown_format": "kimi"})
    assert (refused.status_code, "unknown_format" in refused.json()["fields"]) == (400, True)
    send_json(operator, "PATCH", "/api/settings/", {"unknown_format": "standard"})
    found = operator.get("/api/resolve/?model=house/one").json()
    assert (found["format"], found["format_origin"]) == (
        "standard",
        "the name says nothing about the format, and the gateway settings say standard",
    )
    (change, *_) = operator.get("/api/settings/history/").json()["results"]
    assert [(c["name"], c["old"], c["new"]) for c in change["changes"]] == [
        ("unknown_format", "auto", "standard")
    ]


def test_a_name_without_a_route_is_not_found(operator):
    GatewaySettings.objects.update(default_route=None)
    response = operator.get("/api/resolve/?model=unknown")
    assert (response.status_code, "'unknown'" in response.json()["detail"]) == (404, True)
    for query in ("", "model=", f"model={'x' * 201}", "model=a&colour=red"):
        assert operator.get(f"/api/resolve/?{query}").status_code == 400, query


def test_the_version_names_the_last_author(operator):
    before = operator.get("/api/configuration/").json()
    assert before["changed_by"] is None
    send_json(operator, "PATCH", "/api/settings/", {"ping_after": 3})
    after = operator.get("/api/configuration/").json()
    assert (after["version"], after["changed_by"]) == (before["version"] + 1, "olga")
    assert after["changed_at"] > before["changed_at"]


def make_api_client(gateway: Gateway, name: str) -> httpx.Client:
    """Return a client of the API with the token of a new operator."""
    done = gateway.manage(
        "shell",
        "--no-imports",
        "-c",
        "from django.contrib.auth.models import Group, User\n"
        f"user = User.objects.create_user({name!r}, is_staff=True)\n"
        "user.groups.add(Group.objects.get(name='operators'))",
    )
    assert done.returncode == 0, done.stderr
    token = gateway.manage("token", "create", name).stdout.strip()
    return httpx.Client(
        base_url=f"{gateway.url}/api",
        headers={"authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=30,
    )


def test_an_override_made_by_the_api_becomes_live(gateway: Gateway, upstream):
    upstream.script("api-house/qwen-by-name-only", reply(stream({"content": KIMI_CALL})))
    body = ask("api-house/qwen-by-name-only", tools=TOOLS, stream=True)
    with gateway.client() as client, make_api_client(gateway, "token-olga") as api:
        assert "tool_calls_section" in read(client.post("/v1/messages", json=body)).text
        response = api.post("/overrides/", json={"pattern": "api-house/*", "format": "kimi"})
        row = response.json()
        assert response.status_code == 201, response.text
        calls = wait_for(lambda: read(client.post("/v1/messages", json=body)).calls)
        assert calls[0]["arguments"] == {"harbor": "Moss"}
        (record,) = api.get(f"/overrides/{row['id']}/history/").json()["results"]
        assert (record["changed_by"], record["version"]) == ("token-olga", row["version"])
        assert api.get("/resolve/", params={"model": "api-house/x"}).json()["format"] == "kimi"
        assert api.delete(f"/overrides/{row['id']}/").status_code == 204


def test_of_concurrent_changes_to_one_version_only_one_is_made(upstream, tmp_path):
    gateway = Gateway(
        tmp_path, OPENROUTER_API_KEY="x" * 20, OPENROUTER_BASE_URL=upstream.url, ATHENA_WORKERS="2"
    ).start()
    try:
        with make_api_client(gateway, "olga") as api, ThreadPoolExecutor(8) as pool:
            for _ in range(5):
                tag = api.get("/settings/").headers["etag"]

                def change(number, tag=tag):
                    body, headers = {"ping_after": number + 1}, {"if-match": tag}
                    return api.patch("/settings/", json=body, headers=headers).status_code

                assert sorted(pool.map(change, range(8))) == [200, *[412] * 7]
    finally:
        gateway.stop()
